/** A character that takes two cells leaves this in the second. */
const SECOND = ''

// What is written: an escape of one of these forms, or text up to the next one.
// biome-ignore lint/suspicious/noControlCharactersInRegex: escapes begin with one
const ESCAPE = /\u001b(?:\[([0-9;?<>=]*)[ -/]*([@-~])|\][^\u0007]*\u0007|.)/y

/**
 * What a terminal shows of all that was written to it: a grid of cells, its other grid (the
 * alternate screen) and its cursor. It knows the escapes that a terminal UI needs, and ignores the
 * others.
 */
export class TerminalScreen {
  #cells: string[][] = []
  #saved: { cells: string[][]; row: number; column: number } | null = null
  #row = 0
  #column = 0
  #rest = ''
  isCursorShown = true
  #cols: number
  #rows: number

  constructor(cols: number, rows: number) {
    this.#cols = cols
    this.#rows = rows
  }

  /** Whether the alternate screen is shown. */
  get isAlternate(): boolean {
    return this.#saved !== null
  }

  /** Its lines, without the spaces at their ends. */
  get lines(): string[] {
    return Array.from({ length: this.#rows }, (_, row) =>
      Array.from(this.#cells[row] ?? [], cell => cell ?? ' ')
        .join('')
        .trimEnd(),
    )
  }

  get text(): string {
    return this.lines.join('\n')
  }

  /** Cuts what no longer has room. */
  resize(cols: number, rows: number): void {
    this.#cols = cols
    this.#rows = rows
    this.#cells = this.#cells.slice(0, rows).map(line => line.slice(0, cols))
    this.#row = Math.min(this.#row, rows - 1)
    this.#column = Math.min(this.#column, cols - 1)
  }

  write(written: string): void {
    const text = this.#rest + written
    // An escape may come in two pieces.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes begin with one
    const cut = /\u001b(\[[0-9;?<>=]*|\][^\u0007]*)?$/.exec(text)?.index ?? text.length
    this.#rest = text.slice(cut)
    for (let at = 0; at < cut; ) {
      ESCAPE.lastIndex = at
      const found = text[at] === '\u001b' ? ESCAPE.exec(text) : null
      if (found) this.#obey(found[1] ?? '', found[2] ?? '')
      const end = found ? at + found[0].length : findEnd(text, at, cut)
      if (!found) this.#print(text.slice(at, end))
      at = end
    }
  }

  #obey(parameters: string, command: string): void {
    const [first = Number.NaN, second = Number.NaN] = parameters.split(';').map(Number.parseFloat)
    const count = Number.isNaN(first) ? 1 : first
    const commands: Record<string, () => void> = {
      A: () => this.#moveTo(this.#row - count, this.#column),
      B: () => this.#moveTo(this.#row + count, this.#column),
      C: () => this.#moveTo(this.#row, this.#column + count),
      D: () => this.#moveTo(this.#row, this.#column - count),
      E: () => this.#moveTo(this.#row + count, 0),
      F: () => this.#moveTo(this.#row - count, 0),
      G: () => this.#moveTo(this.#row, count - 1),
      H: () => this.#moveTo(count - 1, (Number.isNaN(second) ? 1 : second) - 1),
      K: () => this.#clearLine(Number.isNaN(first) ? 0 : first),
      J: () => this.#clearScreen(Number.isNaN(first) ? 0 : first),
      h: () => this.#switch(parameters, true),
      l: () => this.#switch(parameters, false),
    }
    commands[command]?.()
  }

  #moveTo(row: number, column: number): void {
    this.#row = Math.max(0, Math.min(this.#rows - 1, row))
    this.#column = Math.max(0, Math.min(this.#cols - 1, column))
  }

  #clearLine(which: number): void {
    const line = this.#cells[this.#row] ?? []
    if (which === 0) line.length = Math.min(line.length, this.#column)
    else if (which === 2) line.length = 0
    else line.fill(' ', 0, this.#column + 1)
  }

  #clearScreen(which: number): void {
    if (which >= 2) this.#cells = []
    if (which !== 0) return
    this.#clearLine(0)
    this.#cells.length = Math.min(this.#cells.length, this.#row + 1)
  }

  #switch(mode: string, isOn: boolean): void {
    if (mode === '?25') this.isCursorShown = isOn
    if (mode !== '?1049' || isOn === this.isAlternate) return
    if (isOn) {
      this.#saved = { cells: this.#cells, row: this.#row, column: this.#column }
      this.#cells = []
      return
    }
    const { cells = [], row = 0, column = 0 } = this.#saved ?? {}
    this.#saved = null
    this.#cells = cells
    this.#moveTo(row, column)
  }

  #print(text: string): void {
    for (const { segment } of new Intl.Segmenter().segment(text))
      if (segment === '\r\n') this.#breakLine(0)
      else if (segment === '\r') this.#column = 0
      else if (segment === '\n') this.#breakLine(this.#column)
      else if (segment >= ' ') this.#put(segment)
  }

  #put(character: string): void {
    const width = Bun.stringWidth(character)
    if (this.#column + width > this.#cols) this.#breakLine(0)
    const line = this.#cells[this.#row] ?? []
    this.#cells[this.#row] = line
    while (line.length < this.#column) line.push(' ')
    line[this.#column] = character
    if (width === 2) line[this.#column + 1] = SECOND
    this.#column += width
  }

  #breakLine(column: number): void {
    this.#column = column
    if (this.#row < this.#rows - 1) this.#row += 1
    else {
      for (let row = 0; row < this.#rows - 1; row++) this.#cells[row] = this.#cells[row + 1] ?? []
      this.#cells[this.#rows - 1] = []
    }
  }
}

function findEnd(text: string, at: number, cut: number): number {
  const next = text.indexOf('\u001b', at + 1)
  return next === -1 ? cut : Math.min(next, cut)
}
