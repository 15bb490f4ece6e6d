import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Sizes that are printed, and may rise. */
export interface Totals {
  /** Of pages that people wrote: without those that a command writes. */
  words_of_pages: number
  decisions: number
}

/** Pages that a command writes, the whole or the most of them. */
const GENERATED = ['configuration', 'reference', 'performance', 'reliability'].map(
  name => `docs/${name}.md`,
)
/** The parts of other pages that a command writes: the lines of agents, the screens. */
const DRAWN = /<!-- (agents|tried): [\s\S]*?<!-- \/\1 -->|<!-- screen: \S+ -->\s*```[\s\S]*?```/g

/** Counts pages and decisions of the directory. */
export function countTotals(root: string): Totals {
  const paths = ['*.md', 'docs/**/*.md'].flatMap(pattern => [
    ...new Bun.Glob(pattern).scanSync(root),
  ])
  const written = paths.filter(path => !GENERATED.includes(path))
  const countWords = (path: string) =>
    readFileSync(join(root, path), 'utf8').replaceAll(DRAWN, '').split(/\s+/).filter(Boolean).length
  return {
    words_of_pages: written.reduce((sum, path) => sum + countWords(path), 0),
    decisions: paths.reduce((sum, path) => sum + countDecisions(root, path), 0),
  }
}

/** Counts the decisions of a page: its sections. One that is a file of its own is one. */
function countDecisions(root: string, path: string): number {
  if (/^docs\/decisions\/\d/.test(path)) return 1
  if (!/^docs\/decisions\/[a-z]/.test(path)) return 0
  return readFileSync(join(root, path), 'utf8').match(/^## /gm)?.length ?? 0
}

/** How long the files of tests take together, and the slowest, in milliseconds. */
export interface Timings {
  ms: number
  slowest: Record<string, string>
}

const SLOWEST = 10

/** Reads what `bun run test:timings` has written. */
export function readTimings(root: string): Timings {
  const text = readFileSync(join(root, 'test/timings.json'), 'utf8')
  const { files }: { files: Record<string, number> } = JSON.parse(text)
  const slowest = Object.entries(files)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, SLOWEST)
  return {
    ms: Object.values(files).reduce((sum, ms) => sum + ms, 0),
    slowest: Object.fromEntries(slowest.map(([path, ms]) => [path, `${(ms / 1000).toFixed(1)} s`])),
  }
}
