import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import {
  applyDiff,
  applyEdit,
  checkStyle,
  checkTypes,
  copyProject,
  readHowTos,
  runTests,
} from './support/how-to.ts'

const TIMEOUT = 240_000

const howTos = await readHowTos()
const edits = howTos.flatMap(howTo => howTo.edits)
const files = [...new Set(edits.map(({ path }) => path))]
const sources = files.filter(path => path.endsWith('.ts'))
const runs = howTos.flatMap(({ tests }) => tests)
/** The files of the runs that are not narrowed by `-t`: they share one process. */
const whole = [
  'test/architecture.test.ts',
  ...new Set(runs.filter(words => !words.includes('-t')).flat()),
]
/** Files whose tests have words of all kinds in their names. */
const WORDY = ['test/server/access.test.ts', 'test/store/sqlite.test.ts']
/** Those that are narrowed: one process runs what they name, unless that is more in a wordy file. */
const narrowed = joinRuns(runs.filter(words => words.includes('-t')))

function joinRuns(runs: string[][]): string[][] {
  const joined: { files: Set<string>; pattern: string }[] = []
  for (const words of runs) {
    const at = words.indexOf('-t')
    const [files, pattern = ''] = [new Set(words.slice(0, at)), words[at + 1]]
    const isWordy = (some: Set<string>) => WORDY.find(name => some.has(name))
    const other = joined.find(one => isWordy(one.files) === isWordy(files))
    if (!other) joined.push({ files, pattern })
    else
      Object.assign(other, {
        files: other.files.union(files),
        pattern: `${other.pattern}|${pattern}`,
      })
  }
  return joined.map(({ files, pattern }) => [...files, '-t', pattern])
}

describe('the project after all how-tos', () => {
  let copy: string
  beforeAll(() => {
    copy = copyProject()
    for (const edit of edits) applyEdit(copy, edit)
  }, TIMEOUT)
  afterAll(() => rmSync(copy, { recursive: true, force: true }))

  test('is in the style of the project', async () => {
    expect(await checkStyle(copy, sources)).toBe('')
  })

  test(
    'has no error of types',
    async () => {
      expect(await checkTypes(copy, [...sources, ...whole])).toBe('')
    },
    TIMEOUT,
  )

  test.each([whole, ...narrowed].map(words => [words.join(' '), words] as const))(
    'passes bun test %s',
    async (_, words) => {
      expect(await runTests(copy, words)).toBe('')
    },
    TIMEOUT,
  )
})

describe.each(howTos.map(({ path, ...howTo }) => [path, howTo] as const))('%s', (_, howTo) => {
  test('fits the screen', () => {
    expect(howTo.text.split('\n').filter(line => line.length > 100)).toEqual([])
  })

  test('says which tests judge it', () => {
    const run = howTo.tests.flat()
    expect(run).not.toBeEmpty()
    const tests = howTo.edits.map(({ path }) => path).filter(path => path.endsWith('.test.ts'))
    expect(tests.filter(path => !run.some(name => path.startsWith(name)))).toEqual([])
  })
})

describe('a diff', () => {
  const TEXT = 'one\ntwo\nthree\ntwo\n'

  test('replaces, adds and removes lines', () => {
    expect(applyDiff(TEXT, ' one\n-two\n+2\n+2b\n@@\n three\n-two\n', 'a.md')).toBe(
      'one\n2\n2b\nthree\n',
    )
  })

  test.each([
    [' four\n+five\n', 'does not have these lines:\nfour'],
    [' two\n+five\n', 'has these lines 2 times:\ntwo'],
    [' one\n three\n', 'does not have these lines:\none\nthree'],
    [' on\n+five\n', 'does not have these lines:\non'],
  ])('%j that does not fit is refused', (diff, message) => {
    expect(() => applyDiff(TEXT, diff, 'a.md')).toThrow(`a.md: the file ${message}`)
  })
})
