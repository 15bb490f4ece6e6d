import { toPrintable } from '../../base/printable.ts'

/** How a piece of a line looks. Each is readable without colours too. */
export type Style = 'plain' | 'dim' | 'bold' | 'good' | 'bad' | 'warn' | 'accent' | 'selected'

/** A piece of a line in one style. */
interface Segment {
  text: string
  style: Style
}

/** One line of the screen. */
export type Line = Segment[]

/** Makes a line of one piece. */
export const say = (text: string, style: Style = 'plain'): Line => [{ text, style }]

// Printable ASCII takes one cell a character.
const ASCII = /^[\x20-\x7e]*$/

/** Counts the cells of the terminal that a text takes. */
export const measure = (text: string): number =>
  ASCII.test(text) ? text.length : Bun.stringWidth(text)

/**
 * Makes a text safe for a terminal and exactly so many cells wide: cut with an ellipsis, or padded.
 * Nothing of a caller's text can move the cursor.
 */
export function fit(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  if (width <= 0) return ''
  const cut = clip(toCellText(text), width)
  const padding = ' '.repeat(Math.max(0, width - measure(cut)))
  return align === 'left' ? cut + padding : padding + cut
}

/**
 * The same for an id, which is cut within: ids begin with an author and often differ at their end
 * alone, so most of what stands is that.
 */
export function fitId(id: string, width: number): string {
  const printable = toCellText(id)
  if (width < 2 || measure(printable) <= width) return fit(printable, width)
  const segments = ASCII.test(printable)
    ? [...printable]
    : Array.from(new Intl.Segmenter().segment(printable), ({ segment }) => segment)
  const head = takeCells(segments, Math.floor((width - 1) / 4))
  const tail = takeCells(segments.reverse(), width - 1 - measure(head.join('')))
  return fit(`${head.join('')}…${tail.reverse().join('')}`, width)
}

/** Takes of the first characters those that have room in so many cells. */
function takeCells(segments: string[], width: number): string[] {
  let room = width
  const end = segments.findIndex(segment => {
    room -= measure(segment)
    return room < 0
  })
  return segments.slice(0, end === -1 ? segments.length : end)
}

/** Makes what is shown printable: a gateway elsewhere may send another type than it should. */
function toCellText(text: unknown): string {
  const whole = typeof text === 'string' ? text : String(text ?? '')
  return toPrintable(whole.length > MOST ? whole.slice(0, MOST) : whole)
}

/** No line of a terminal is longer, in characters. */
const MOST = 2_000

function clip(text: string, width: number): string {
  if (measure(text) <= width) return text
  if (ASCII.test(text)) return `${text.slice(0, width - 1)}…`
  let cut = ''
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (Bun.stringWidth(cut + segment) >= width) break
    cut += segment
  }
  return `${cut}…`
}

/** Breaks a text into lines of this width, between words where it can. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of toPrintable(text.slice(0, MOST)).split(' ')) {
    const joined = line === '' ? word : `${line} ${word}`
    if (measure(joined) <= width) line = joined
    else {
      if (line !== '') lines.push(line)
      line = clip(word, width)
    }
  }
  return [...lines, line]
}

/** A column of a table. Those with the highest `rank` go first where there is no room. */
export interface Column<Row> {
  title: string
  width: number
  rank: number
  align?: 'left' | 'right'
  /** Takes what is left of the line. */
  grows?: boolean
  /** Whether its texts are ids, whose ends tell them apart. */
  isId?: boolean
  cell(row: Row): string
  style?(row: Row): Style
}

const GAP = 2

/** Chooses the columns that fit in a line, and how wide each is. */
function fitColumns<Row>(
  columns: Column<Row>[],
  width: number,
): (Column<Row> & { width: number })[] {
  let shown = [...columns]
  const count = () => shown.reduce((sum, column) => sum + column.width + GAP, -GAP)
  while (shown.length > 1 && count() > width) {
    const last = Math.max(...shown.map(({ rank }) => rank))
    shown = shown.filter(({ rank }) => rank !== last)
  }
  const growing = shown.filter(({ grows }) => grows)
  const left = Math.max(0, width - count())
  const each = growing.length === 0 ? 0 : Math.floor(left / growing.length)
  return shown.map(column => (column.grows ? { ...column, width: column.width + each } : column))
}

/** Renders a table: its headings, and the rows that are on the screen. */
export function renderTable<Row>(
  columns: Column<Row>[],
  rows: Row[],
  { width, selected }: { width: number; selected: number },
): Line[] {
  const shown = fitColumns(columns, width)
  const heading = shown
    .map(({ title, width: cells, align }) => fit(title, cells, align))
    .join(' '.repeat(GAP))
  return [
    say(fit(heading, width), 'dim'),
    ...rows.map((row, index) => renderRow(shown, row, width, index === selected)),
  ]
}

function renderRow<Row>(
  columns: Column<Row>[],
  row: Row,
  width: number,
  isSelected: boolean,
): Line {
  const cells = columns.map(column => ({
    text: column.isId
      ? fitId(column.cell(row), column.width)
      : fit(column.cell(row), column.width, column.align),
    style: column.style?.(row) ?? 'plain',
  }))
  if (isSelected)
    return say(fit(cells.map(({ text }) => text).join(' '.repeat(GAP)), width), 'selected')
  return joinSegments(
    cells.map(({ text, style }, index) => ({
      text: index === cells.length - 1 ? text : text + ' '.repeat(GAP),
      style,
    })),
  )
}

/** Joins neighbours of one style: each piece costs when it is drawn. */
function joinSegments(segments: Segment[]): Line {
  const joined: Line = []
  for (const segment of segments) {
    const last = joined.at(-1)
    if (last?.style === segment.style) last.text += segment.text
    else joined.push({ ...segment })
  }
  return joined
}

/** Draws a bar of this width for a share from 0 to 1. */
export function drawBar(share: number, width: number): string {
  const full = Math.max(0, Math.min(width, Math.round(share * width)))
  return '█'.repeat(full) + '░'.repeat(width - full)
}

const SPARKS = ' ▁▂▃▄▅▆▇█'

/** Draws the last values as a sparkline of this width. */
export function drawSparkline(values: number[], width: number): string {
  const shown = values.slice(-width)
  const highest = Math.max(...shown, 0)
  const drawn = shown.map(value =>
    value <= 0 || highest === 0
      ? SPARKS[0]
      : SPARKS[Math.max(1, Math.round((value / highest) * 8))],
  )
  return drawn.join('').padStart(width)
}

/** The dots of a braille character, from the lowest row up: the left column, and the right one. */
const DOTS = [
  [0x40, 0x04, 0x02, 0x01],
  [0x80, 0x20, 0x10, 0x08],
]

/**
 * Draws the last values as filled columns of braille dots, two values in a cell and four levels in
 * a line, the top line first. The highest value reaches the top.
 */
export function drawPlot(values: number[], width: number, height: number): string[] {
  const columns = width * 2
  const shown = values.slice(-columns)
  const padded = [...Array<number>(columns - shown.length).fill(0), ...shown]
  const highest = Math.max(...padded, 0)
  const levels = padded.map(value =>
    value <= 0 || highest === 0 ? 0 : Math.max(1, Math.round((value / highest) * height * 4)),
  )
  return Array.from({ length: height }, (_, row) => {
    const floor = (height - 1 - row) * 4
    return Array.from({ length: width }, (_, cell) =>
      String.fromCharCode(0x2800 + countDots(levels, cell, floor)),
    ).join('')
  })
}

function countDots(levels: number[], cell: number, floor: number): number {
  let dots = 0
  for (const [side, column] of DOTS.entries()) {
    const level = (levels[cell * 2 + side] ?? 0) - floor
    for (let dot = 0; dot < Math.min(4, level); dot++) dots |= column[dot] ?? 0
  }
  return dots
}

/** Formats a number of at most four digits, with a unit: 950, 12.3k, 4.5M. */
export function formatCount(value: number): string {
  if (value < 1_000)
    return value < 10 && value % 1 !== 0 ? value.toFixed(1) : String(Math.round(value))
  for (const [size, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const)
    if (value >= size) return `${(value / size).toFixed(1)}${unit}`
  return String(value)
}

/** Formats milliseconds: 950ms, 12.3s, 4m05. */
export function formatTime(milliseconds: number | null): string {
  if (milliseconds === null) return '-'
  if (milliseconds < 1_000) return `${Math.round(milliseconds)}ms`
  if (milliseconds < 100_000) return `${(milliseconds / 1000).toFixed(1)}s`
  const seconds = Math.floor(milliseconds / 1000)
  return `${Math.floor(seconds / 60)}m${String(seconds % 60).padStart(2, '0')}`
}

/** Formats USD in few characters: $0.0012, $3.40, $1.2k. */
export function formatUsd(usd: number | null | undefined): string {
  // A gateway elsewhere may be older, and know no such amount.
  if (usd === null || usd === undefined) return '-'
  if (usd === 0) return '$0'
  if (usd < 0) return `-${formatUsd(-usd)}`
  if (usd >= 1_000) return `$${formatCount(usd)}`
  if (usd < 0.00001) return `$${usd.toExponential(1)}`
  return `$${usd >= 1 ? usd.toFixed(2) : usd < 0.001 ? usd.toFixed(5) : usd.toPrecision(2)}`
}
