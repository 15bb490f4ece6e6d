/*
 * Values as they cross between two servers: JSON, with a tag for what JSON has no form for. Both may
 * be of different versions, so the form depends on none of the runtime.
 */

/** Writes a value on one line. Throws a TypeError for a function. */
export const writeValue = (value: unknown): string => JSON.stringify(tag(value))

/** Reads what `writeValue` has written. */
export const readValue = (line: string): unknown => untag(JSON.parse(line))

function tag(value: unknown): unknown {
  if (typeof value === 'bigint') return { $n: String(value) }
  if (typeof value === 'function') throw new TypeError('A function that cannot be sent')
  if (typeof value === 'number' && !Number.isFinite(value)) return { $f: String(value) }
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return { $b: Buffer.from(value).toString('base64') }
  if (value instanceof Date) return { $d: value.toISOString() }
  if (value instanceof Map) return { $m: [...value].map(tag) }
  if (value instanceof Set) return { $s: [...value].map(tag) }
  if (Array.isArray(value)) return value.map(tag)
  const entries = Object.entries(value).map(([name, one]) => [name, tag(one)] as const)
  const plain = Object.fromEntries(entries)
  // What looks like a tag is wrapped, so that it is read as it is.
  return entries.length === 1 && entries[0]?.[0].startsWith('$') ? { $o: plain } : plain
}

const READERS: Record<string, (value: never) => unknown> = {
  $n: (text: string) => BigInt(text),
  $f: (text: string) => Number(text),
  $b: (text: string) => new Uint8Array(Buffer.from(text, 'base64')),
  $d: (text: string) => new Date(text),
  $m: (entries: [unknown, unknown][]) => new Map(untag(entries) as [unknown, unknown][]),
  $s: (items: unknown[]) => new Set(untag(items) as unknown[]),
  $o: (plain: object) => untagFields(plain),
}

function untag(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(untag)
  const names = Object.keys(value)
  const read = names.length === 1 ? READERS[names[0] as string] : undefined
  return read ? read(Object.values(value)[0] as never) : untagFields(value)
}

const untagFields = (value: object): object =>
  Object.fromEntries(Object.entries(value).map(([name, one]) => [name, untag(one)]))
