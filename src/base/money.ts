/**
 * Money is a whole number of nano-dollars (10⁻⁹ USD), as a bigint. Prices are atto-dollars
 * (10⁻¹⁸ USD) per token or per unit, so that even the lowest price is exact.
 */

const NANO = 1_000_000_000n
const ATTO_PER_NANO = 1_000_000_000n

/** The largest USD amount that a body may state. In nano-dollars, sums of it fit into 64 bits. */
export const MAX_USD = 1_000_000_000

/** Converts a JSON number of USD to nano-dollars, rounded half up at the ninth digit. */
export const toNanos = (usd: number): bigint => scaleDecimal(usd, 9)

/** Converts nano-dollars to USD as a JSON number. */
export function toUsd(nanos: bigint): number {
  const small = Number(nanos)
  return Number.isSafeInteger(small)
    ? small / 1e9
    : Number(nanos / NANO) + Number(nanos % NANO) / 1e9
}

/** Renders nano-dollars for a sentence: `$500.00`, with cents and further digits as needed. */
export function renderDollars(nanos: bigint): string {
  const fraction = (nanos % NANO).toString().padStart(9, '0')
  return `$${nanos / NANO}.${fraction.replace(/0{1,7}$/, '')}`
}

/** Converts USD per million tokens to atto-dollars per token. */
export const toAttosPerToken = (usdPerMillion: number): bigint => scaleDecimal(usdPerMillion, 12)

/** Converts USD per unit to atto-dollars per unit. */
export const toAttosPerUnit = (usd: number): bigint => scaleDecimal(usd, 18)

/** Converts USD per unit to atto-dollars per thousandth of a unit. */
export const toAttosPerThousandth = (usd: number): bigint => scaleDecimal(usd, 15)

/** Converts atto-dollars to nano-dollars, rounded half up. A charge is rounded only here. */
export const roundToNanos = (attos: bigint): bigint => (attos + ATTO_PER_NANO / 2n) / ATTO_PER_NANO

/** Converts atto-dollars to nano-dollars, rounded up. */
export const roundUpToNanos = (attos: bigint): bigint =>
  (attos + ATTO_PER_NANO - 1n) / ATTO_PER_NANO

/** Renders atto-dollars per token as the decimal string of USD per token that `/models` shows. */
export function renderUsdPerToken(attos: bigint): string {
  const digits = attos.toString().padStart(19, '0')
  const fraction = digits.slice(-18).replace(/0+$/, '')
  return digits.slice(0, -18) + (fraction && `.${fraction}`)
}

/**
 * Multiplies a price by a count. Every sum of money comes from here, so none can be negative.
 * Throws a RangeError for a count that is not a whole number from 0, and for a negative price.
 */
export function multiplyPrice(count: number, price: bigint): bigint {
  if (count < 0 || price < 0n) throw new RangeError('Money is never multiplied by less than zero')
  // Most counts are 0 or 1 and need no multiplication. A fraction throws here.
  return count === 1 ? price : count === 0 ? 0n : BigInt(count) * price
}

/**
 * Returns what is held for a fixed amount and so many tokens of a price, all in atto-dollars:
 * nano-dollars, rounded up, since a hold is never less than its cost.
 */
export const toHeldNanos = (fixed: bigint, count: number, price: bigint): bigint =>
  roundUpToNanos(fixed + multiplyPrice(count, price))

/** Returns the larger of two amounts, or the first if there is no second. */
export const pickLarger = (a: bigint, b: bigint | undefined): bigint =>
  b !== undefined && b > a ? b : a

// Uses the shortest decimal text and not multiplication: 0.07 * 1e12 is not 7e10 in binary.
function scaleDecimal(amount: number, places: number): bigint {
  const [mantissa = '0', exponent = '0'] = amount.toString().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const shift = places + Number(exponent) - fraction.length
  const digits = BigInt(whole + fraction)
  if (shift >= 0) return digits * 10n ** BigInt(shift)
  const unit = 10n ** BigInt(-shift)
  return (digits + unit / 2n) / unit
}

/** Converts nano-dollars to atto-dollars. */
export const toAttos = (nanos: bigint): bigint => nanos * ATTO_PER_NANO
