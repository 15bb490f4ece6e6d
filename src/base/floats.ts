const FLOAT_BYTES = 4

/** Encodes numbers as little-endian 32-bit floats in base64, whatever the machine's byte order. */
export function encodeFloats(numbers: number[]): string {
  const bytes = Buffer.alloc(numbers.length * FLOAT_BYTES)
  for (const [i, value] of numbers.entries()) bytes.writeFloatLE(value, i * FLOAT_BYTES)
  return bytes.toString('base64')
}

/** Decodes little-endian 32-bit floats in base64. Bytes that are no whole float are left out. */
export function decodeFloats(base64: string): number[] {
  const bytes = Buffer.from(base64, 'base64')
  return Array.from({ length: Math.floor(bytes.length / FLOAT_BYTES) }, (_, i) =>
    bytes.readFloatLE(i * FLOAT_BYTES),
  )
}

/** All bits of the exponent: what is infinite or no number has them. */
const EXPONENT = 0x7f_80_00_00

/** Tells whether base64 has whole floats, at least one, each of which is a finite number. */
export function hasFloats(base64: string): boolean {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length === 0 || bytes.length % FLOAT_BYTES !== 0) return false
  for (let at = 0; at < bytes.length; at += FLOAT_BYTES)
    if ((bytes.readInt32LE(at) & EXPONENT) === EXPONENT) return false
  return true
}
