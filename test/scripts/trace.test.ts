import { describe, expect, test } from 'bun:test'
import { join, resolve } from 'node:path'
import { instrument } from '../../scripts/trace/instrument.ts'
import { type Count, createReport, type Report, renderReport } from '../../scripts/trace/report.ts'
import { Tracer } from '../../scripts/trace/tracer.ts'
import { LONG } from '../support/random.ts'

const ROOT = resolve(import.meta.dir, '../..')

async function trace(...flags: string[]) {
  const command = [process.execPath, 'run', join(ROOT, 'scripts/trace.ts'), ...flags]
  const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
  const [stdout = '', stderr = ''] = await Promise.all(texts)
  return { code: await child.exited, stdout, stderr }
}

const filesOf = ({ rooms }: Count): string[] => Object.values(rooms).flat()

describe('a traced call', () => {
  test('goes from the route through the inference, part of which is its planning', async () => {
    const { code, stdout, stderr } = await trace('--json')
    expect([stderr, code]).toEqual(['', 0])
    const { whole, planning, steps }: Report = JSON.parse(stdout)
    const files = filesOf(whole)
    expect(files).toContain('src/server/calls.ts')
    expect(whole.rooms['src/engine']?.length).toBeGreaterThan(1)
    expect(whole.rooms).toContainKey('src/network')
    expect(Object.keys(whole.rooms).filter(room => room.startsWith('src/extensions'))).toEqual([])
    expect(whole.files).toBe(new Set(files).size)
    expect(whole.changes).toBe(steps.length - 1)
    expect(planning.files).toBeWithin(1, whole.files)
    expect(files).toEqual(expect.arrayContaining(filesOf(planning)))
  })

  // That of the keys is traced by test/scripts/house.test.ts as well: `calls.keys_create`.
  test.skipIf(!LONG)('of the keys has no plan', async () => {
    const { stdout } = await trace('--keys', '--json')
    const { whole, planning }: Report = JSON.parse(stdout)
    expect(filesOf(whole)).toContain('src/server/resource.ts')
    expect(planning).toEqual({ files: 0, functions: 0, entries: 0, changes: 0, rooms: {} })
  })

  test('with an unknown flag is refused', async () => {
    const { code, stderr } = await trace('--keys', '--stream')
    expect([code, stderr]).toEqual([2, expect.stringContaining('--keys stands alone')])
  })
})

/** What an instrumented text calls while this test looks at it. */
function enteredBy(source: string, looked: string): string[] {
  const { text } = instrument(source, { file: 7, spans: ['plan'] })
  const entered: string[] = []
  const enter = (file: number, name: string) => entered.push(`${file} ${name}`)
  const span = (file: number, name: string, run: () => unknown) => {
    entered.push(`${file} ${name} from`)
    const made = run()
    entered.push('to')
    return made
  }
  new Function('__enter', '__span', `${text}\n;${looked}`)(enter, span)
  return entered
}

describe('an instrumented file reports', () => {
  test('functions and arrows, whatever their body', () => {
    const source = `function a() { return b(1)({}) }
      const b = x => ({ y }) => [x, y]
      const c = { d() {}, e: () => ({}) }`
    const entered = ['7 a', '7 b', '7 ', '7 d', '7 e']
    expect(enteredBy(source, 'a(); c.d(); c.e()')).toEqual(entered)
  })

  test('getters, private methods and constructors, also implicit ones', () => {
    const source = `class A { constructor() {} get x() { return this.#y() } #y() {} }
      class B extends A { z = 1 }
      class C {}`
    const entered = ['7 new B', '7 new A', '7 x', '7 #y']
    expect(enteredBy(source, 'new B().x; new C()')).toEqual(entered)
  })

  test('how long a span runs', () => {
    const source = 'const a = () => 1; function plan() { return a() }'
    expect(enteredBy(source, 'plan()')).toEqual(['7 plan from', '7 a', 'to'])
    expect(enteredBy('const plan = () => ({})', 'plan()')).toEqual(['7 plan from', 'to'])
  })

  test('no span for a generator', () => {
    const watched = { file: 7, spans: ['plan'] }
    expect(() => instrument('function* plan() {}', watched)).toThrow('plan is a generator')
  })
})

describe('planning', () => {
  const planning = { file: 'src/engine/plan.ts', functions: ['plan', 'order'] }
  const entry = { file: 'src/engine/plan.ts', name: 'plan', planning: true }

  test('that was not loaded is reported as missing', () => {
    const missing = 'src/engine/plan.ts has no function plan, order'
    expect(() => new Tracer(ROOT, planning).requirePlanning()).toThrow(missing)
  })

  test('that did not run is reported as missing, where there should be a plan', () => {
    const entries = [entry]
    const traced = { name: 'call', plans: true, entries }
    const missing = 'did not run order of src/engine/plan.ts'
    expect(() => createReport(traced, planning)).toThrow(missing)
    expect(createReport({ ...traced, plans: false }, planning).planning.files).toBe(1)
  })

  test('lasts until its promise settles', async () => {
    const tracer = new Tracer(ROOT, planning)
    const source = `const [a, b] = [() => 1, () => 2]
      const plan = async () => { await 0; return a() }`
    const text = tracer.instrumentFile(planning.file, source)
    const call = new Function(`${text}\n;return plan().then(() => b())`)
    const entries = await tracer.record(() => call())
    const inner = { ...entry, name: '' }
    expect(entries).toEqual([entry, inner, { ...inner, planning: false }])
  })
})

test('changes of file and rooms are counted', () => {
  const files = ['src/base/a.ts', 'src/limits/c.ts', 'src/limits/c.ts', 'src/limits/d/e.ts']
  const back = [...files, 'src/base/a.ts', 'src/server/routes/f.ts']
  const entries = back.map(file => ({ file, name: 'x', planning: false }))
  const report = createReport(
    { name: 'a call', plans: false, entries },
    { file: '', functions: [] },
  )
  expect(renderReport(report)).toBe(
    [
      'a call: 4 files of 3 rooms, 4 changes of file, 4 functions, 6 entries',
      '  src/base (1)\n    a',
      '  src/limits (2)\n    c, d/e',
      '  src/server (1)\n    routes/f\n',
    ].join('\n'),
  )
})
