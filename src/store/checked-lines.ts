/** Computes what proves that a line is as it was written. */
type Check = (json: string) => string

/** Renders a line of JSON after its check: a changed or cut line is found out. */
export const renderCheckedLine = (json: string, check: Check): string => `${check(json)} ${json}\n`

/** Returns the JSON of a line; null unless the line is as it was written. */
export function parseCheckedLine(line: string, check: Check): string | null {
  const json = line.slice(line.indexOf(' ') + 1)
  return line === `${check(json)} ${json}` ? json : null
}

/** Computes a checksum, which finds accidents and no forgery. */
export const computeChecksum: Check = json => Bun.hash.crc32(json).toString(16).padStart(8, '0')
