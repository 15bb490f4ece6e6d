import type { Work } from '../../src/base/turns.ts'

/*
 * Counts what a piece of code does to strings and lists, in units and items read or copied. Unlike
 * time it is the same on every machine, so that work on a text can be compared with work on a text
 * twice as long.
 */

type Method = (this: unknown, ...options: unknown[]) => unknown
type Cost = (length: number, result: unknown, options: unknown[]) => number

const lengthOf = (value: unknown): number => (value as { length?: number } | null)?.length ?? 0
const whole: Cost = length => length
const one: Cost = () => 1
/** As `one`, of methods with at most one option. Code calls them for each unit of a text. */
const unit: Cost = () => 1
const ofResult: Cost = (_, result) => lengthOf(result) + 1
const upToResult: Cost = (length, result, [, from = 0]) =>
  (result === -1 ? length : (result as number)) - (from as number) + 1

const STRINGS: Record<string, Cost> = {
  charCodeAt: unit,
  codePointAt: unit,
  charAt: unit,
  slice: ofResult,
  substring: ofResult,
  indexOf: upToResult,
  includes: whole,
  replace: whole,
  replaceAll: whole,
  normalize: whole,
  split: whole,
  toLowerCase: whole,
}
const LISTS: Record<string, Cost> = {
  push: one,
  slice: ofResult,
  concat: ofResult,
  splice: (length, _, [start]) => Math.max(0, length - (start as number)) + 1,
  shift: whole,
  unshift: whole,
  some: whole,
  every: whole,
  find: whole,
  findIndex: whole,
  filter: whole,
  map: whole,
  flatMap: whole,
  reduce: whole,
  includes: whole,
  indexOf: whole,
  toSorted: whole,
  join: whole,
}

/** Counts the work of a function. Nothing else may run meanwhile. */
export const countWork = (work: () => void): number =>
  watchWork(work, { ofTexts: STRINGS, ofLists: LISTS, hasExpressions: true })

/** What code does unit by unit or item by item; the platform itself copies and seeks fast. */
const UNITS: Record<string, Cost> = { charCodeAt: unit, codePointAt: unit }
const COPIES = new Set(['slice', 'concat', 'join'])
const ITEMS = Object.fromEntries(Object.entries(LISTS).filter(([name]) => !COPIES.has(name)))

/**
 * Counts the items that the largest step of a work handles: for so long nobody else has their turn.
 * With `hasTexts` it also counts the units of texts, which takes long.
 */
export function countLargestStep(work: Work<unknown>, hasTexts = false): number {
  let largest = 0
  const run = (readCount: () => number) => {
    for (let [isDone, before] = [false, 0]; !isDone; before = readCount()) {
      isDone = work.next().done === true
      largest = Math.max(largest, readCount() - before)
    }
  }
  watchWork(run, { ofTexts: hasTexts ? UNITS : {}, ofLists: ITEMS, hasExpressions: false })
  return largest
}

interface Watched {
  ofTexts: Record<string, Cost>
  ofLists: Record<string, Cost>
  hasExpressions: boolean
}

function watchWork(
  work: (readCount: () => number) => void,
  { ofTexts, ofLists, hasExpressions }: Watched,
): number {
  let count = 0
  const restore = [
    ...Object.entries(ofTexts).map(([name, cost]) => watch(String.prototype, name, cost)),
    ...Object.entries(ofLists).map(([name, cost]) => watch(Array.prototype, name, cost)),
    watch(Object.getPrototypeOf([].values()), 'next', unit),
    ...(hasExpressions ? [watchExpressions()] : []),
  ]
  try {
    work(() => count)
  } finally {
    for (const undo of restore) undo()
  }
  return count

  function watch(prototype: object, name: PropertyKey, cost: Cost): () => void {
    const original = Reflect.get(prototype, name) as Method
    if (cost === unit)
      replace(prototype, name, function (this: unknown, option) {
        count += 1
        return original.call(this, option)
      })
    else
      replace(prototype, name, function (this: unknown, ...options) {
        const length = lengthOf(this)
        const result = Reflect.apply(original, this, options)
        count += cost(length, result, options)
        return result
      })
    return () => replace(prototype, name, original)
  }

  /** An expression reads as far as it matches, or to the end. */
  function watchExpressions(): () => void {
    const { exec, test } = RegExp.prototype
    const read = (expression: RegExp, text: string, run: () => unknown) => {
      const hasPlace = expression.global || expression.sticky
      const from = hasPlace ? expression.lastIndex : 0
      const result = run()
      const isFound = result !== null && result !== false
      if (hasPlace && isFound) count += expression.lastIndex - from + 1
      else count += expression.sticky || isFound ? 1 : text.length - from + 1
      return result
    }
    replace(RegExp.prototype, 'exec', function (this: unknown, text) {
      return read(this as RegExp, text as string, () => Reflect.apply(exec, this, [text]))
    })
    replace(RegExp.prototype, 'test', function (this: unknown, text) {
      return read(this as RegExp, text as string, () => Reflect.apply(test, this, [text]))
    })
    return () => {
      replace(RegExp.prototype, 'exec', exec as Method)
      replace(RegExp.prototype, 'test', test as Method)
    }
  }
}

const replace = (prototype: object, name: PropertyKey, value: Method): void => {
  Object.defineProperty(prototype, name, { value, writable: true, configurable: true })
}
