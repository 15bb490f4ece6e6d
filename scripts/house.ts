import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { measureCalls, measurePlainCall } from './house/calls.ts'
import { measureHeap, measurePlainHeap } from './house/heap.ts'
import { type LoadedModule, listLoadedModules } from './house/modules.ts'
import { listRises, pickHeld, type Ratchet, renderRises, turnRatchet } from './house/ratchet.ts'
import { countTotals, readTimings } from './house/totals.ts'
import { measureTree } from './house/tree.ts'

const USAGE = `bun run scripts/house.ts [--only calls,heap,modules,tree,timings,totals]
  [--plain] [--json] [--modules] [--write [--why TEXT]]

Prints what a call costs its reader and its machine, and the shape of the tree, beside
test/ratchet.json, where each figure may only fall. --plain measures calls and heap by the plain
call alone. --modules lists what the built program loads.
--write writes figures that fell to that file, and with --why those that rose.
`

const ROOT = resolve(import.meta.dir, '..')
const RATCHET = resolve(ROOT, 'test/ratchet.json')

// Calls come first: they are traced before anything of the program is loaded.
const SECTIONS = {
  calls: measureCalls,
  heap: measureHeap,
  modules: measureModules,
  tree: () => measureTree(ROOT),
  timings: () => readTimings(ROOT),
  totals: () => countTotals(ROOT),
}
type Section = keyof typeof SECTIONS

const PLAIN = { ...SECTIONS, calls: measurePlainCall, heap: measurePlainHeap }

const NAMES = Object.keys(SECTIONS) as Section[]

async function main(): Promise<void> {
  try {
    const { only, plain, json, modules, write, why } = readOptions()
    const measured: Partial<Record<Section, object>> = {}
    const sections = plain ? PLAIN : SECTIONS
    for (const name of only) measured[name] = await sections[name]()
    const ratchet: Ratchet = await Bun.file(RATCHET).json()
    const held = pickHeld(measured)
    if (write) await Bun.write(RATCHET, renderJson(turnRatchet(ratchet, held, why)))
    if (json) process.stdout.write(renderJson(held))
    else process.stdout.write(renderSections(measured, modules))
    const rises = write ? [] : listRises(held, ratchet)
    if (rises.length > 0) throw new Error(renderRises(rises))
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
    process.exitCode = 1
  }
  // What was started before a failure would keep the process alive.
  process.exit()
}

function readOptions() {
  const flag = { type: 'boolean', default: false } as const
  const text = { type: 'string' } as const
  try {
    const { values } = parseArgs({
      options: { only: text, why: text, plain: flag, json: flag, modules: flag, write: flag },
    })
    const named = values.only?.split(',') ?? NAMES
    const unknown = named.find(name => !NAMES.includes(name as Section))
    if (unknown !== undefined) throw new Error(`--only: ${unknown} is none of ${NAMES.join(', ')}`)
    return { ...values, only: NAMES.filter(name => named.includes(name)) }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    process.exit(2)
  }
}

async function measureModules() {
  const { listening, answered } = await listLoadedModules()
  const count = (modules: LoadedModule[]) => ({
    count: modules.length,
    bytes: modules.reduce((sum, { bytes }) => sum + bytes, 0),
  })
  // The lists are texts: they are printed, and not held.
  return {
    listening: count(listening),
    answered: count(answered),
    lists: { listening: listNames(listening), answered: listNames(answered) },
  }
}

const listNames = (modules: LoadedModule[]): string[] =>
  modules
    .toSorted((a, b) => b.bytes - a.bytes)
    .map(({ path, bytes }) => `${String(bytes).padStart(8)} ${path}`)

const renderJson = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

function renderSections(measured: Partial<Record<Section, object>>, withModules: boolean): string {
  return Object.entries(measured)
    .map(([name, figures]) => `${name}\n${renderFigures(figures, '  ', withModules)}`)
    .join('')
}

function renderFigures(figures: object, indent: string, withModules: boolean): string {
  return Object.entries(figures)
    .filter(([name]) => withModules || name !== 'lists')
    .map(([name, value]) => {
      if (Array.isArray(value))
        return `${indent}${name}\n${value.map(line => `${indent}  ${line}\n`).join('')}`
      if (typeof value === 'object' && value)
        return `${indent}${name}\n${renderFigures(value, `${indent}  `, withModules)}`
      return `${indent}${name.padEnd(50 - indent.length)} ${String(value).padStart(10)}\n`
    })
    .join('')
}

await main()
