//! What can happen to a request, and what a correct reader makes of it.

use super::{COMMS, DEVICES, Era, Generator, LETTERS, Request, START_NS};

impl Generator {
    /// Adds one life of some kind. Most are ordinary, as in real traces.
    pub fn life(&mut self) {
        let request = self.request();
        let first_ns = self.start();
        match self.random.below(40) {
            0 => self.requeued(&request, first_ns),
            1 => self.requeued_and_merged(&request, first_ns),
            2 => self.split(&request, first_ns),
            3 => {
                self.complete(first_ns, &request, 0, None);
                self.count("orphan_completion");
            }
            4 => {
                self.requeue(first_ns, &request);
                self.count("orphan_requeue");
            }
            5 => self.completion_lost(&request, first_ns),
            6 => self.mismatched(&request, first_ns),
            7 => self.left_open(&request, first_ns),
            8 => {
                let event = self.random.pick(&["block:block_io_start", "block:block_rq_insert"]);
                self.issuing(event, first_ns, &request);
                self.count("never_issued");
            }
            9..=11 => self.flushes(&request),
            12 => self.accounted_only(&request, first_ns),
            13 => self.passthrough(&request, first_ns),
            14..=18 => self.queued(&request, first_ns),
            _ => self.ordinary(&request, first_ns, first_ns),
        }
    }

    /// Issue and completion; the waiting started at `first_ns`.
    fn ordinary(&mut self, request: &Request, first_ns: i64, issue_ns: i64) {
        self.issue(issue_ns, request);
        let done_ns = self.after(issue_ns);
        let (number, error) = match self.random.below(60) {
            0 => (-5, Some("EIO")),
            1 => (-11, Some("EAGAIN")),
            2 => (-9999, Some("error")),
            _ => (0, None),
        };
        let event = self.event(request, first_ns, issue_ns, done_ns, error);
        self.complete(done_ns, request, number, Some(event));
        if self.random.one_in(10) {
            // The accounting ends after the driver; this line must not count again.
            let at_ns = self.after(done_ns);
            self.ending("block:block_io_done", at_ns, &Request { sectors: 0, ..*request }, 0, None);
        }
    }

    fn queued(&mut self, request: &Request, first_ns: i64) {
        let mut waiting_ns = first_ns;
        // It grows by merges until it is issued.
        let small = Request { sectors: 8, ..*request };
        match self.random.below(3) {
            0 => self.issuing("block:block_io_start", first_ns, &small),
            1 => self.issuing("block:block_rq_insert", first_ns, &small),
            _ => {
                self.issuing("block:block_io_start", first_ns, &small);
                waiting_ns = self.after(first_ns);
                self.issuing("block:block_rq_insert", waiting_ns, &small);
            }
        }
        let issue_ns = self.after(waiting_ns);
        self.ordinary(request, first_ns, issue_ns);
    }

    fn requeued(&mut self, request: &Request, first_ns: i64) {
        let mut at_ns = first_ns;
        self.issue(at_ns, request);
        // The driver's queue is run by whoever is at hand; the last issue counts.
        let by_kworker = Request { comm: b"kworker/1:1H", tid: 21, ..*request };
        for _ in 0..1 + self.random.below(3) {
            at_ns = self.after(at_ns);
            self.requeue(at_ns, request);
            if self.random.one_in(2) {
                at_ns = self.after(at_ns);
                self.issuing("block:block_rq_insert", at_ns, request);
            }
            at_ns = self.after(at_ns);
            self.issue(at_ns, &by_kworker);
            self.count("requeue");
        }
        let done_ns = self.after(at_ns);
        let event = self.event(&by_kworker, first_ns, at_ns, done_ns, None);
        self.complete(done_ns, request, 0, Some(event));
    }

    fn requeued_and_merged(&mut self, request: &Request, first_ns: i64) {
        self.issue(first_ns, request);
        let at_ns = self.after(first_ns);
        self.requeue(at_ns, request);
        self.count("requeued_only");
        // It goes on as the rear of another request, under that one's sector.
        let sector = request.sector - 8;
        let merged = Request { sector, sectors: request.sectors + 8, ..*request };
        let at_ns = self.after(at_ns);
        self.ordinary(&merged, at_ns, at_ns);
    }

    fn split(&mut self, request: &Request, first_ns: i64) {
        self.issue(first_ns, request);
        let parts = (request.sectors / 8).min(1 + self.random.below(5));
        let (mut at_ns, mut sector) = (first_ns, request.sector);
        for _ in 1..parts {
            at_ns = self.after(at_ns);
            self.complete(at_ns, &Request { sector, sectors: 8, ..*request }, 0, None);
            self.count("partial_completion");
            sector += 8;
        }
        let done_ns = self.after(at_ns);
        let event = self.event(request, first_ns, first_ns, done_ns, None);
        let rest = Request { sector, sectors: request.sectors - (sector - request.sector), ..*request };
        self.complete(done_ns, &rest, 0, Some(event));
    }

    fn completion_lost(&mut self, request: &Request, first_ns: i64) {
        self.issue(first_ns, request);
        let again_ns = self.after(first_ns);
        let lost = if self.lost_between(first_ns, again_ns) { "open_after_loss" } else { "lost_completion" };
        self.count(lost);
        let (letters, kind) = self.random.pick(LETTERS);
        let next = Request { letters, kind, comm: self.random.pick(COMMS), ..*request };
        if self.random.one_in(2) {
            self.issuing("block:block_io_start", again_ns, &next);
            let issue_ns = self.after(again_ns);
            self.ordinary(&next, again_ns, issue_ns);
        } else {
            self.ordinary(&next, again_ns, again_ns);
        }
    }

    fn mismatched(&mut self, request: &Request, first_ns: i64) {
        let request = Request { letters: "W", kind: "write", ..*request };
        self.issue(first_ns, &request);
        let at_ns = self.after(first_ns);
        let other = match self.random.one_in(2) {
            true => Request { letters: "R", ..request },
            false => Request { sectors: request.sectors + 8, ..request },
        };
        self.complete(at_ns, &other, 0, None);
        self.count("mismatched_completion");
        // What then completes has no issue any more.
        let at_ns = self.after(at_ns);
        self.complete(at_ns, &request, 0, None);
        self.count("orphan_completion");
    }

    fn left_open(&mut self, request: &Request, first_ns: i64) {
        self.issue(first_ns, request);
        match self.lost_between(first_ns, i64::MAX) {
            true => self.count("open_after_loss"),
            false => self.open.push(first_ns),
        }
    }

    /// A trace of the accounting only: `io_start` and `io_done`.
    fn accounted_only(&mut self, request: &Request, first_ns: i64) {
        self.issuing("block:block_io_start", first_ns, request);
        let done_ns = self.after(first_ns);
        let event = self.event(request, first_ns, first_ns, done_ns, None);
        self.ending("block:block_io_done", done_ns, &Request { sectors: 0, ..*request }, 0, Some(event));
    }

    /// A SCSI command: its bytes stand in the brackets on old kernels.
    fn passthrough(&mut self, request: &Request, first_ns: i64) {
        if self.recipe.era != Era::Old {
            return self.ordinary(request, first_ns, first_ns);
        }
        let before = self.lines.len();
        self.ordinary(request, first_ns, first_ns);
        let bytes = request.sectors * 512;
        for line in &mut self.lines[before..] {
            let text = replaced(&line.text, b" 0 () ", format!(" {bytes} (28 00 0b [a] 00) ").as_bytes());
            line.text = replaced(&text, b" () ", b" (28 00 0b [a] 00) ");
        }
    }

    /// A few flushes of one device; each may be asked for by a write, which completes once more without length.
    fn flushes(&mut self, request: &Request) {
        let place = self.random.below(DEVICES.len() as u64) as usize;
        let (letters, kind) = self.random.pick(&[("FF", "flush"), ("FF", "flush"), ("N", "other")]);
        let flush = Request { letters, kind, device: DEVICES[place], sector: 0, sectors: 0, ..*request };
        let count = 1 + self.random.below(4);
        let from_ns = self.flushed_ns[place].max(START_NS + self.random.below(self.span_ns()) as i64);
        let mut issued = Vec::new();
        let mut at_ns = from_ns;
        for _ in 0..count {
            let wait = self.random.below(20_000) as i64 + self.step();
            at_ns = self.moment(at_ns + wait);
            self.issue(at_ns, &flush);
            issued.push((at_ns, at_ns));
        }
        if count == 1 && self.random.one_in(3) {
            at_ns = self.after(at_ns);
            self.requeue(at_ns, &flush);
            at_ns = self.after(at_ns);
            self.issue(at_ns, &flush);
            self.count("requeue");
            issued[0].1 = at_ns;
        }
        for (first_ns, issue_ns) in issued {
            let wait = self.random.below(3_000_000) as i64 + self.step();
            at_ns = self.moment(at_ns + wait);
            let event = self.event(&flush, first_ns, issue_ns, at_ns, None);
            let sector = if letters == "FF" { u64::MAX } else { 0 };
            self.complete(at_ns, &Request { sector, ..flush }, 0, Some(event));
            if letters == "FF" && self.random.one_in(2) {
                at_ns = self.moment(at_ns + self.step());
                self.complete(at_ns, &Request { letters: "WS", sector: 0, ..flush }, 0, None);
                self.count("flush_parent");
            }
        }
        if self.random.one_in(8) {
            at_ns = self.moment(at_ns + self.step());
            self.complete(at_ns, &Request { letters: "FF", sector: u64::MAX, ..flush }, 0, None);
            self.count("orphan_completion");
        }
        self.flushed_ns[place] = at_ns;
    }
}

fn replaced(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    match text.windows(what.len()).rposition(|window| window == what) {
        Some(at) => [&text[..at], with, &text[at + what.len()..]].concat(),
        None => text.to_vec(),
    }
}
