// The bucket grid of crates/histogram: 2^power buckets to the octave, values below 2^(power+1) exact. All in floating point, since
// bit operations end at 2^31. Bounds are exact: they have few digits.

export class Grid {
  /** Number of buckets up to 2^64. */
  readonly buckets: number;
  /** Smallest value of each bucket. */
  private readonly lowers: Float64Array;

  constructor(readonly power: number) {
    const linear = 2 ** (power + 1);
    this.buckets = (65 - power) * 2 ** power;
    this.lowers = Float64Array.from({ length: this.buckets }, (_, index) => {
      if (index < linear) return index;
      const shift = Math.floor(index / 2 ** power) - 1;
      return (index - shift * 2 ** power) * 2 ** shift;
    });
  }

  /** The bucket of a value. */
  index(value: number): number {
    const linear = 2 ** (this.power + 1);
    if (value < linear) return Math.floor(value);
    let octave = Math.floor(Math.log2(value));
    // The logarithm of a number just below a power of two may round up.
    if (2 ** octave > value) octave--;
    const shift = octave - this.power;
    return shift * 2 ** this.power + Math.floor(value / 2 ** shift);
  }

  /** Smallest value of a bucket. */
  lower(index: number): number {
    return this.lowers[index] ?? 2 ** 64;
  }

  /** First value beyond a bucket. */
  upper(index: number): number {
    return this.lower(index + 1);
  }

  /** The value in the middle of a bucket; of two, the larger. */
  middle(index: number): number {
    const lower = this.lower(index);
    return lower + Math.ceil((this.upper(index) - 1 - lower) / 2);
  }

  /** Where a value lies among the buckets, with a fraction. */
  place(value: number): number {
    const index = this.index(value);
    const lower = this.lower(index);
    return index + (value - lower) / Math.max(this.upper(index) - lower, 1);
  }

  /** The value at such a place. */
  value(place: number): number {
    const index = Math.floor(place);
    return this.lower(index) + (place - index) * (this.upper(index) - this.lower(index));
  }
}

/** Of percentiles: 64 buckets to the octave. */
export const FINE = new Grid(6);
