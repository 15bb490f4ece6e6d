const DELIMITERS = [',', ';', '\t']

/** How many records are compared. */
const MOST_RECORDS = 1_000

/**
 * Whether lines are a table of values (RFC 4180): at least two records with as many fields each,
 * and two fields or more, between commas, semicolons or tabs. Prose has a space after each comma.
 */
export const isCsv = (lines: string[]): boolean => {
  const filled = lines.filter(line => line.trim() !== '')
  return DELIMITERS.some(delimiter => isTable(filled, delimiter))
}

function isTable(lines: string[], delimiter: string): boolean {
  const counter = new FieldCounter(delimiter)
  for (const line of lines) {
    if (counter.counts.length === MOST_RECORDS) break
    counter.read(line)
  }
  const { counts, hasTight, isQuoted } = counter
  const [first = 1] = counts
  return counts.length > 1 && first > 1 && hasTight && !isQuoted && counts.every(n => n === first)
}

class FieldCounter {
  readonly counts: number[] = []
  /** Whether a delimiter stood without a space after it. */
  hasTight = false
  /** Whether a quoted field goes on in the next line. */
  isQuoted = false
  #fields = 1
  readonly #delimiter: string

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  read(line: string): void {
    for (let i = 0; i < line.length; i++) {
      const isDelimiter = line[i] === this.#delimiter && !this.isQuoted
      if (line[i] === '"') this.isQuoted = !this.isQuoted
      if (!isDelimiter) continue
      this.#fields += 1
      if (line[i + 1] !== ' ') this.hasTight = true
    }
    if (this.isQuoted) return
    this.counts.push(this.#fields)
    this.#fields = 1
  }
}
