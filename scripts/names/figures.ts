import { listFunctions, type NamedFunction } from './functions.ts'
import { beginsWithVerb, endsInPreposition } from './words.ts'

/** The widest that a line of code or prose should be, in columns. */
const WIDTH = 100
/** As many parameters make a call hard to read. */
const MANY_PARAMETERS = 5

export interface Source {
  path: string
  text: string
}

/** What the names and lines of a tree come to. Shares are of 1. */
export interface Figures {
  files: number
  functions: number
  /** The share of functions whose name begins with a verb. */
  verbFirst: number
  /** The share of functions whose name ends in a preposition. */
  prepositionLast: number
  lines: number
  /** The share of lines over 100 columns. */
  wideLines: number
  /** The number of functions with five parameters or more. */
  manyParameters: number
}

/** Measures the sources together. */
export function measure(sources: Source[]): Figures {
  const functions = sources.flatMap(({ text }) => listFunctions(text))
  const lines = sources.flatMap(({ text }) => text.trimEnd().split('\n'))
  return {
    files: sources.length,
    functions: functions.length,
    verbFirst: shareOf(functions, ({ name }) => beginsWithVerb(name)),
    prepositionLast: shareOf(functions, ({ name }) => endsInPreposition(name)),
    lines: lines.length,
    wideLines: shareOf(lines, line => line.length > WIDTH),
    manyParameters: functions.filter(hasManyParameters).length,
  }
}

/** Renders figures as a table for people. */
export function render(figures: Figures): string {
  const rows: [string, string][] = [
    ['files', String(figures.files)],
    ['functions', String(figures.functions)],
    ['verb first', toPercent(figures.verbFirst)],
    ['ends in a preposition', toPercent(figures.prepositionLast)],
    ['lines', String(figures.lines)],
    [`lines > ${WIDTH}`, toPercent(figures.wideLines)],
    [`functions with ${MANY_PARAMETERS}+ parameters`, String(figures.manyParameters)],
  ]
  return rows.map(([label, value]) => `${label.padEnd(30)}${value.padStart(8)}\n`).join('')
}

/** Lists the functions that stand out, a line each: the file, the name and the reason. */
export const listOutliers = (sources: Source[]): string =>
  sources
    .flatMap(({ path, text }) =>
      listFunctions(text).flatMap(found =>
        findReasons(found).map(reason => `${path}\t${found.name}\t${reason}\n`),
      ),
    )
    .join('')

function findReasons(found: NamedFunction): string[] {
  const reasons: string[] = []
  if (!beginsWithVerb(found.name)) reasons.push('no verb first')
  if (endsInPreposition(found.name)) reasons.push('preposition last')
  if (hasManyParameters(found)) reasons.push(`${found.parameters} parameters`)
  return reasons
}

const hasManyParameters = ({ parameters }: NamedFunction) => parameters >= MANY_PARAMETERS

const shareOf = <Item>(items: Item[], test: (item: Item) => boolean): number =>
  items.length === 0 ? 0 : items.filter(test).length / items.length

const toPercent = (share: number): string => `${(share * 100).toFixed(1)} %`
