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
