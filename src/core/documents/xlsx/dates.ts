import { readAttribute, readXml } from '../xml.ts'

/** The formats of dates and times that every office program has (ECMA-376, 18.8.30). */
const isDateFormat = (id: number) => (id >= 14 && id <= 22) || (id >= 45 && id <= 47)

/** Texts in quotes, in brackets and after a backslash are no signs of a date. */
const LITERALS = /"[^"]*"|\[[^\]]*\]|\\./g
const DATE_SIGNS = /[ymdhs]/i

/** Reads which styles of cells show a number as a date. */
export function readDateStyles(part: Uint8Array | undefined): Set<number> {
  const formats = new Set<number>()
  const styles = new Set<number>()
  let isCellStyles = false
  let count = 0
  for (const event of part ? readXml(part) : []) {
    if (event.type === 'text') continue
    if (event.name === 'cellXfs') isCellStyles = event.type === 'open'
    if (event.type !== 'open') continue
    const format = Number(readAttribute(event.attributes, 'numFmtId') ?? 0)
    const code = event.name === 'numFmt' ? readAttribute(event.attributes, 'formatCode') : undefined
    if (code !== undefined && DATE_SIGNS.test(code.replace(LITERALS, ''))) formats.add(format)
    if (event.name !== 'xf' || !isCellStyles) continue
    if (isDateFormat(format) || formats.has(format)) styles.add(count)
    count += 1
  }
  return styles
}

const DAY = 86_400_000
const EPOCH_1900 = Date.UTC(1899, 11, 30)
const EPOCH_1904 = Date.UTC(1904, 0, 1)

/** Returns a function that renders days since the beginning of a workbook's time. */
export const createDateReader =
  (isFrom1904: boolean) =>
  (days: number): string => {
    const time = new Date((isFrom1904 ? EPOCH_1904 : EPOCH_1900) + Math.round(days * DAY))
    if (Number.isNaN(time.getTime())) return String(days)
    const [date = '', clock = ''] = time.toISOString().split('T')
    const hour = clock.slice(0, 8)
    if (Math.abs(days) < 1) return hour
    return hour === '00:00:00' ? date : `${date} ${hour}`
  }
