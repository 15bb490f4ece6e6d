/** A value of a cell: a text, a number, or nothing. */
type CsvCell = string | number | boolean | bigint | object | null | undefined

/**
 * Renders a row of a CSV file (RFC 4180). Callers choose some texts, so one that a spreadsheet would
 * take for a formula begins with an apostrophe. Objects are JSON.
 */
export const renderCsvRow = (cells: CsvCell[]): string => `${cells.map(renderCell).join(',')}\r\n`

function renderCell(cell: CsvCell): string {
  if (cell === null || cell === undefined) return ''
  if (typeof cell === 'object') return quote(JSON.stringify(cell))
  if (typeof cell !== 'string') return String(cell)
  return quote(/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
}

const quote = (text: string): string =>
  /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
