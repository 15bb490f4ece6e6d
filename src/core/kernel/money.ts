/**
 * Money is a whole number of nano-dollars (10⁻⁹ USD), as a bigint. Prices are atto-dollars
 * (10⁻¹⁸ USD) per token or per count of a unit, so that the cheapest is exact.
 */

const NANO = 1_000_000_000n
const ATTO_PER_NANO = 1_000_000_000n

/** The most USD that a body may name: as nano-dollars it fits 64 bits, with room to add. */
export const MOST_USD = 1_000_000_000

/** USD as JSON has it → nano-dollars, rounded half up at the ninth digit. */
export const nanosOf = (usd: number): bigint => decimal(usd, 9)

/** Nano-dollars → USD as JSON shows it. */
export function usdOf(nanos: bigint): number {
  const small = Number(nanos)
  return Number.isSafeInteger(small)
    ? small / 1e9
    : Number(nanos / NANO) + Number(nanos % NANO) / 1e9
}

/** Nano-dollars as a sentence has them: `$500.00`, with cents and as many places more as the sum needs. */
export function dollarsOf(nanos: bigint): string {
  const fraction = (nanos % NANO).toString().padStart(9, '0')
  return `$${nanos / NANO}.${fraction.replace(/0{1,7}$/, '')}`
}

/** USD per million tokens → atto-dollars per token. */
export const attosPerToken = (usdPerMillion: number): bigint => decimal(usdPerMillion, 12)

/** USD → atto-dollars, for what is priced by the piece. */
export const attosOfUsd = (usd: number): bigint => decimal(usd, 18)

/** USD for one → atto-dollars for a thousandth of it. */
export const attosPerThousandth = (usd: number): bigint => decimal(usd, 15)

/** Atto-dollars → nano-dollars, rounded half up. The one rounding of a charge. */
export const roundToNanos = (attos: bigint): bigint => (attos + ATTO_PER_NANO / 2n) / ATTO_PER_NANO

/** Atto-dollars → nano-dollars, rounded up: what is set aside is never less than what it is for. */
export const upToNanos = (attos: bigint): bigint => (attos + ATTO_PER_NANO - 1n) / ATTO_PER_NANO

/** Atto-dollars per token → the decimal string of USD per token that `/models` shows. */
export function usdPerTokenText(attos: bigint): string {
  const digits = attos.toString().padStart(19, '0')
  const fraction = digits.slice(-18).replace(/0+$/, '')
  return digits.slice(0, -18) + (fraction && `.${fraction}`)
}

/** So many at this price. Most counts are 0 or 1, for which there is nothing to multiply. */
export const times = (count: number, price: bigint): bigint =>
  count === 1 ? price : count === 0 ? 0n : BigInt(count) * price

/** The larger of two amounts, where there are two. */
export const larger = (a: bigint, b: bigint | undefined): bigint =>
  b !== undefined && b > a ? b : a

// Through the shortest decimal text, not through multiplication: 0.07 * 1e12 is not 7e10 in binary.
function decimal(amount: number, places: number): bigint {
  const [mantissa = '0', exponent = '0'] = amount.toString().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const shift = places + Number(exponent) - fraction.length
  const digits = BigInt(whole + fraction)
  if (shift >= 0) return digits * 10n ** BigInt(shift)
  const unit = 10n ** BigInt(-shift)
  return (digits + unit / 2n) / unit
}

/** Nano-dollars → atto-dollars. */
export const attosOf = (nanos: bigint): bigint => nanos * ATTO_PER_NANO
