import { describe, expect, test } from 'bun:test'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import {
  type Figures,
  listRises,
  pickHeld,
  type Ratchet,
  turnRatchet,
} from '../../scripts/house/ratchet.ts'
import { countUpwardImports } from '../../scripts/house/rooms.ts'
import { findCircles, readSource } from '../../scripts/house/tree.ts'

const ROOT = resolve(import.meta.dir, '../..')

const readRatchet = (): Promise<Ratchet> => Bun.file(join(ROOT, 'test/ratchet.json')).json()

/** In milliseconds. Each run takes some ten seconds of a processor, whoever else has it. */
const PATIENCE = 600_000

/** Runs the command in a checkout, and returns the figures that it measured. */
async function measure(root: string, ...options: string[]) {
  const command = [process.execPath, 'run', 'scripts/house.ts', '--json', ...options]
  const { GATEWAY_TEST_BINARY: binary } = process.env
  const child = Bun.spawn(command, {
    cwd: root,
    env: { ...process.env, ...(binary ? { GATEWAY_TEST_BINARY: resolve(ROOT, binary) } : {}) },
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  })
  const [stdout, stderr] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  const code = await child.exited
  if (!stdout) throw new Error(stderr)
  return { code, stderr, figures: JSON.parse(stdout) as Figures }
}

describe('what a call costs its reader and its machine', () => {
  test(
    'has not risen: `bun run house --write --why TEXT` writes a rise with its reason',
    async () => {
      // What is printed alone, the totals, is not held.
      const held = 'calls,heap,modules,tree,timings'
      const { figures, stderr } = await measure(ROOT, '--only', held)
      const ratchet = await readRatchet()
      // On a busy machine timers run out within a call, and count. What has risen does so each time.
      for (let run = 0; run < 8; run++) {
        const risen = new Set(
          listRises(figures, ratchet).map(({ figure }) => figure.split('.', 1)[0]),
        )
        if (risen.size === 0) break
        const again = await measure(ROOT, '--only', [...risen].join())
        for (const [name, value] of Object.entries(again.figures))
          figures[name] = Math.min(figures[name] ?? value, value)
      }
      expect(listRises(figures, ratchet)).toEqual([])
      expect(Object.keys(figures).toSorted()).toEqual(Object.keys(ratchet.figures).toSorted())
      expect(stderr.split('\n').filter(line => line && !/ rose from |--why/.test(line))).toEqual([])
    },
    PATIENCE,
  )

  test(
    'rises with a file more on the way, an allocation, and an import at the start',
    async () => {
      const root = plantTree()
      try {
        const { code, stderr } = await measure(root, '--only', 'calls,heap,modules', '--plain')
        expect(code).toBe(1)
        for (const figure of [
          'calls.chat.files',
          'heap.bytes_of_a_call',
          'modules.listening.count',
        ])
          expect(stderr).toContain(`${figure} rose from`)
      } finally {
        rmSync(root, { recursive: true, force: true })
      }
    },
    PATIENCE,
  )
})

/** Copies the source with a file more on the way of a call, and another at the start. */
function plantTree(): string {
  mkdirSync(join(ROOT, 'dist'), { recursive: true })
  const root = mkdtempSync(join(ROOT, 'dist/planted-'))
  for (const path of ['src', 'scripts', 'build.ts', 'package.json', 'test/ratchet.json'])
    cpSync(join(ROOT, path), join(root, path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  const write = (path: string, text: string) => writeFileSync(join(root, path), text)
  const insert = (path: string, before: RegExp, text: string) => {
    const source = readFileSync(join(root, path), 'utf8')
    expect(source).toMatch(before)
    write(
      path,
      source.replace(before, found => found + text),
    )
  }
  write('src/engine/planted.ts', PLANTED)
  write('src/cli/planted.ts', 'Object.assign(globalThis, { planted: true })\n')
  insert('src/engine/plan.ts', /^/, `import { plant } from './planted.ts'\n`)
  insert('src/engine/plan.ts', /export function planStep.*\{\n/, 'plant()\n')
  insert('src/cli/start.ts', /^/, `import './planted.ts'\n`)
  return root
}

const PLANTED = `const planted: number[][] = []
export function plant() {
  planted.push(Array.from({ length: 300 }, (_, i) => i + 0.5))
}
`

describe('the ratchet', () => {
  const ratchet: Ratchet = { figures: { 'a.files': 10, 'a.bytes': 1000 }, raised: [] }

  test('lets no count rise, and bytes by two per cent', () => {
    expect(listRises({ 'a.files': 10, 'a.bytes': 1020 }, ratchet)).toEqual([])
    expect(listRises({ 'a.files': 11, 'a.bytes': 1021 }, ratchet)).toEqual([
      { figure: 'a.files', from: 10, to: 11 },
      { figure: 'a.bytes', from: 1000, to: 1021 },
    ])
  })

  test('turns down with figures that fell by more than noise, and keeps those not measured', () => {
    expect(turnRatchet(ratchet, { 'a.files': 9 }).figures).toEqual({
      ...ratchet.figures,
      'a.files': 9,
    })
    expect(turnRatchet(ratchet, { 'a.bytes': 985 }).figures).toEqual(ratchet.figures)
    expect(turnRatchet(ratchet, { 'a.bytes': 979 }).figures['a.bytes']).toBe(979)
  })

  test('turns up with a reason only, which it keeps', () => {
    const measured = { 'a.files': 12 }
    expect(() => turnRatchet(ratchet, measured)).toThrow('a.files rose from 10 to 12')
    expect(turnRatchet(ratchet, measured, 'a new part')).toEqual({
      figures: { 'a.files': 12, 'a.bytes': 1000 },
      raised: [{ figure: 'a.files', from: 10, to: 12, why: 'a new part' }],
    })
  })

  test('has a new figure from the first time on', () => {
    expect(listRises({ 'b.files': 1 }, ratchet)).toHaveLength(1)
    expect(turnRatchet(ratchet, { 'b.files': 1 }).figures['b.files']).toBe(1)
  })

  test('holds numbers, and neither totals nor lists', () => {
    const measured = {
      tree: { files: 3, circles: 2 },
      totals: { decisions: 1 },
      lists: { a: ['b'] },
    }
    expect(pickHeld(measured)).toEqual({ 'tree.circles': 2 })
  })
})

describe('a source file', () => {
  const known = new Set(['src/a/b.ts', 'src/c.ts', 'src/d.ts'])
  const text = `/** A comment. */
import { one, two as second } from '../c.ts'
import type { Three } from '../d.ts'
import { readFileSync } from 'node:fs'

export const four = () => [one, second]
export const five = 5
function six(): Three {
  return readFileSync
}
`

  test('is counted with its functions, imports and uses', () => {
    expect(readSource('src/a/b.ts', text, known)).toEqual({
      path: 'src/a/b.ts',
      lines: 10,
      codeLines: 8,
      functions: 2,
      exportedFunctions: ['four'],
      imports: ['src/c.ts', 'src/d.ts'],
      uses: ['src/c.ts#one', 'src/c.ts#two', 'src/d.ts#Three'],
    })
  })

  test('is in a circle where it imports itself through others', () => {
    const files = Object.entries({ a: ['b'], b: ['c'], c: ['a'], d: ['a'], e: ['e', 'd'] })
    const circles = findCircles(files.map(([path, imports]) => ({ path, imports })))
    expect(circles.map(circle => circle.toSorted())).toEqual([['a', 'b', 'c']])
  })

  test('imports upward where it names a higher room', () => {
    const [engine, extension] = ['src/engine/infer.ts', 'src/extensions/plugins/web.ts']
    expect(countUpwardImports([{ path: engine, imports: [extension] }])).toBe(1)
    expect(countUpwardImports([{ path: extension, imports: [engine] }])).toBe(0)
    expect(() => countUpwardImports([{ path: 'src/x.ts', imports: [engine] }])).toThrow('no room')
  })
})
