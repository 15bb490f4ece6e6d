import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** What each file of the tree imports by value, by its path. */
export type Imports = Map<string, string[]>

/** Reads what the files of `src` and `test` import of each other. */
export function readImports(root: string): Imports {
  const imports: Imports = new Map()
  for (const path of new Bun.Glob('{src,test}/**/*.{ts,tsx}').scanSync(root)) {
    if (path.endsWith('.d.ts')) continue
    const loader = path.endsWith('x') ? 'tsx' : 'ts'
    const found = new Bun.Transpiler({ loader }).scanImports(readFileSync(join(root, path), 'utf8'))
    const own = found.filter(each => each.path.startsWith('.'))
    imports.set(
      path,
      own.map(each => normalize(join(dirname(path), each.path))),
    )
  }
  return imports
}

/** How many milliseconds each test file takes. */
export type Durations = Record<string, number>

/**
 * Lists the test files that judge a source file, for about `limit` milliseconds: those that mirror
 * it, then those with most of its names in theirs, then those that reach it by the fewest imports,
 * the fastest first.
 */
export function chooseTests(
  path: string,
  imports: Imports,
  durations: Durations,
  limit: number,
): string[] {
  const distances = measureDistances(path, imports)
  const ranked = [...imports.keys()]
    .filter(name => /^test\/.*\.test\.tsx?$/.test(name))
    .map(test => ({ test, nearness: rateNearness(path, test), distance: distances.get(test) }))
    .filter(({ nearness, distance }) => nearness > 0 || distance !== undefined)
    .sort(
      (one, other) =>
        other.nearness - one.nearness ||
        (one.distance ?? FAR) - (other.distance ?? FAR) ||
        getDuration(durations, one.test) - getDuration(durations, other.test),
    )
  const chosen: string[] = []
  let total = 0
  for (const { test } of ranked) {
    total += getDuration(durations, test) + START
    if (total > limit && chosen.length > 0) break
    chosen.push(test)
  }
  return chosen
}

const FAR = 100
/** What a file of tests takes to start, and one that nobody has timed, in milliseconds. */
const START = 500
const UNKNOWN = 2_000

export const getDuration = (durations: Durations, test: string): number =>
  durations[test] ?? UNKNOWN

/** Rates a file's own tests as nearest. The names of others are compared word by word. */
function rateNearness(path: string, test: string): number {
  const own = path.replace(/^src\//, 'test/').replace(/\.tsx?$/, '')
  const tested = test.replace(/\.test\.tsx?$/, '')
  if (tested === own || tested.startsWith(`${own}/`)) return FAR
  const words = listWords(own)
  return [...listWords(tested)].filter(word => words.has(word)).length
}

/** Lists the words of a path below its room, each in the singular. */
const listWords = (path: string): Set<string> =>
  new Set(
    path
      .split('/')
      .slice(2)
      .flatMap(name => name.split('-'))
      .map(word => word.replace(/s$/, '')),
  )

/** Returns by how many imports each file reaches another. */
function measureDistances(path: string, imports: Imports): Map<string, number> {
  const importers = Map.groupBy(
    [...imports].flatMap(([from, names]) => names.map(name => ({ from, name }))),
    ({ name }) => name,
  )
  const distances = new Map([[path, 0]])
  for (const [name, distance] of distances)
    for (const { from } of importers.get(name) ?? [])
      if (!distances.has(from)) distances.set(from, distance + 1)
  return distances
}
