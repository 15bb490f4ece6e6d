import fc from 'fast-check'

/** Any character of Unicode. (fast-check's own unit `binary` keeps a list of all of them.) */
const character = fc
  .integer({ min: 0, max: 0x10ffff })
  .filter(code => code < 0xd800 || code > 0xdfff)
  .map(code => String.fromCodePoint(code))

/** Generates texts of any characters, control characters among them. */
export const generateText = (constraints: { maxLength?: number } = {}): fc.Arbitrary<string> =>
  fc.string({ unit: character, ...constraints })
