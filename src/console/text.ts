/** Renders an amount in USD: cents, or as many digits as it needs. */
export function formatUsd(amount: number | null | undefined): string {
  if (amount === null || amount === undefined) return '—'
  if (amount === 0) return '$0'
  const digits =
    Math.abs(amount) >= 0.1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(Math.abs(amount))))
  return `$${amount.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: digits })}`
}

/** Renders a count: 1,234,567. */
export const formatCount = (count: number | null | undefined): string =>
  count === null || count === undefined
    ? '—'
    : count.toLocaleString('en', { maximumFractionDigits: 1 })

/** Renders milliseconds: 340 ms, 2.4 s. */
export function formatMilliseconds(time: number | null | undefined): string {
  if (time === null || time === undefined) return '—'
  return time < 1000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`
}

/** Renders a moment as its reader's clock has it. */
export function formatTime(iso: string | number | null | undefined): string {
  if (iso === null || iso === undefined) return '—'
  return new Date(iso).toLocaleString('en-CA', { hour12: false }).replace(',', '')
}

/** Renders a value of an unknown kind, as short as can be. */
export function formatValue(value: unknown): string {
  if (value === null || value === undefined || value === '') return '—'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value) && value.every(one => typeof one !== 'object')) return value.join(', ')
  if (typeof value === 'object') return JSON.stringify(value)
  if (typeof value === 'string' && ISO.test(value)) return formatTime(value)
  return String(value)
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d/
