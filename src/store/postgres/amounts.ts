/** The name under which JSON has an amount of money. */
const AMOUNT = '$nanos'

/** Renders amounts of money as objects: JSON has no numbers of their size. */
export const replaceAmount = (_: string, value: unknown) =>
  typeof value === 'bigint' ? { [AMOUNT]: String(value) } : value

/** Reads what `replaceAmount` has rendered. */
export function reviveAmount(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !(AMOUNT in value)) return value
  const text = (value as Record<string, unknown>)[AMOUNT]
  return typeof text === 'string' && Object.keys(value).length === 1 ? BigInt(text) : value
}
