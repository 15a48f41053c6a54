//! A paletted PNG as a data URI: the smallest form of a grid of cells that every SVG renderer shows.
//!
//! Written by the PNG specification (ISO/IEC 15948): 8-bit palette images, one deflate stream, colour 0 transparent.

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::Write;

/// An image without its colours: packing takes longer than all the rest, and several palettes may share it.
pub(crate) struct Packed {
    width: u32,
    height: u32,
    data: Vec<u8>,
}

impl Packed {
    /// Packs an image; `pixels` are palette indices, row by row from the top.
    pub fn new(width: u32, pixels: &[u8]) -> Packed {
        Packed { width, height: pixels.len() as u32 / width.max(1), data: deflated(width, pixels) }
    }

    /// The image as `data:image/png;base64,...`. Colour 0 is transparent and not in `palette`, which starts with colour 1.
    pub fn data_uri(&self, palette: &[[u8; 3]]) -> String {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut header = [self.width.to_be_bytes(), self.height.to_be_bytes()].concat();
        // Bit depth 8, colour type 3 (palette), deflate, no filter method but 0, not interlaced.
        header.extend([8, 3, 0, 0, 0]);
        chunk(&mut png, b"IHDR", &header);
        let colours: Vec<u8> = [[0, 0, 0]].iter().chain(palette).flatten().copied().collect();
        chunk(&mut png, b"PLTE", &colours);
        chunk(&mut png, b"tRNS", &[0]);
        chunk(&mut png, b"IDAT", &self.data);
        chunk(&mut png, b"IEND", &[]);
        format!("data:image/png;base64,{}", BASE64_STANDARD.encode(&png))
    }
}

fn deflated(width: u32, pixels: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(9));
    let mut above = vec![0; width as usize];
    for row in pixels.chunks(width.max(1) as usize) {
        // Filter 2, the difference to the row above: cells are several pixels high, so most rows become zeros.
        let filtered: Vec<u8> = row.iter().zip(&above).map(|(pixel, above)| pixel.wrapping_sub(*above)).collect();
        // Writing to a Vec does not fail.
        let _ = encoder.write_all(&[2]).and_then(|()| encoder.write_all(&filtered));
        above.copy_from_slice(row);
    }
    encoder.finish().unwrap_or_default()
}

fn chunk(png: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    png.extend(name);
    png.extend(data);
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(data);
    png.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_survive() {
        let pixels = [0, 1, 2, 2, 1, 0, 7, 7, 7];
        let mut plain = Vec::new();
        let packed = deflated(3, &pixels);
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut plain).unwrap();
        let mut above = [0u8; 3];
        for (row, expected) in plain.chunks(4).zip(pixels.chunks(3)) {
            (0..3).for_each(|at| above[at] = above[at].wrapping_add(row[at + 1]));
            assert_eq!((row[0], &above[..]), (2, expected));
        }
    }
}
