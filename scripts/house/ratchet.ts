/** Figures by their names, as `calls.chat.files`. */
export type Figures = Record<string, number>

/** The figures that may only fall, and why some of them once rose. */
export interface Ratchet {
  figures: Figures
  raised: { figure: string; from: number; to: number; why: string }[]
}

/** What figures may differ by from one run to the next, as a share. Counts do not differ. */
const NOISE: [names: RegExp, share: number][] = [
  // What a destination is sent goes out by the clock, too: a slow machine sends more batches.
  [/bytes_of_a_call_with_everything$/, 0.04],
  [/(^|[._])(bytes|ms)([._]|$)/, 0.02],
]

const findNoise = (name: string): number => NOISE.find(([names]) => names.test(name))?.[1] ?? 0

const findMost = (name: string, from: number): number => from * (1 + findNoise(name))

/** Figures that are printed and not held. */
const TOTALS =
  /^(totals\.|tree\.(files|lines|functions|exported_functions|files_with_one_importer|exported_functions_with_one_user)$)/

/** Flattens what was measured, and leaves out what is not held. */
export function pickHeld(measured: object): Figures {
  return Object.fromEntries(listFigures('', measured).filter(([name]) => !TOTALS.test(name)))
}

function listFigures(prefix: string, value: object): [name: string, figure: number][] {
  return Object.entries(value).flatMap(([key, inner]): [string, number][] => {
    const name = prefix ? `${prefix}.${key}` : key
    if (typeof inner === 'number') return [[name, inner]]
    return typeof inner === 'object' && inner ? listFigures(name, inner) : []
  })
}

/** A figure beside the one on record. */
export interface Difference {
  figure: string
  from: number
  to: number
}

/** Lists the figures that rose by more than their noise, and those that are not on record. */
export function listRises(measured: Figures, { figures }: Pick<Ratchet, 'figures'>): Difference[] {
  return listDifferences(measured, figures).filter(
    ({ figure, from, to }) => !(to <= findMost(figure, from)),
  )
}

function listDifferences(measured: Figures, figures: Figures): Difference[] {
  return Object.entries(measured)
    .map(([figure, to]) => ({ figure, from: figures[figure] ?? Number.NaN, to }))
    .filter(({ from, to }) => from !== to)
}

/**
 * Returns the ratchet with figures that fell, and with those that rose where a reason is given.
 * A figure within its noise stays as it is, so that noise does not add up. Throws for a rise without
 * a reason.
 */
export function turnRatchet(ratchet: Ratchet, measured: Figures, why?: string): Ratchet {
  const rises = listRises(measured, ratchet)
  const known = rises.filter(({ from }) => !Number.isNaN(from))
  if (known.length > 0 && !why) throw new Error(`${renderRises(known)}\n--why says why they may`)
  const isRaised = (name: string) => rises.some(({ figure }) => figure === name)
  const figures = Object.entries(measured).map(([name, figure]) => {
    const recorded = ratchet.figures[name] ?? figure
    const hasFallen = figure < recorded * (1 - findNoise(name))
    return [name, hasFallen || isRaised(name) ? figure : recorded] as const
  })
  return {
    figures: { ...ratchet.figures, ...Object.fromEntries(figures) },
    raised: [...ratchet.raised, ...known.map(rise => ({ ...rise, why: why ?? '' }))],
  }
}

/** Renders rises, a line each. */
export function renderRises(rises: Difference[]): string {
  return rises.map(({ figure, from, to }) => `${figure} rose from ${from} to ${to}`).join('\n')
}
