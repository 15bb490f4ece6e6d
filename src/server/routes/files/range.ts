import type { ByteRange } from '../../../core/kernel/byte-source.ts'

/**
 * Returns the bytes that a `Range` header asks for (RFC 9110, 14.2); undefined for all of them:
 * without a header, and for several ranges, other units, and what the file does not have.
 */
export function readRange(header: string | null, size: number): ByteRange | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? []
  if (first === '' && last === '') return undefined
  const start = first === '' ? Math.max(size - Number(last), 0) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(Number(last) + 1, size)
  return start < end ? { start, length: end - start } : undefined
}
