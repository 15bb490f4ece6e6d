import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { type Document, listBlocks, readDocuments, splitCommand } from './documents.ts'
import { SHARED } from './shared.ts'

const ROOT = resolve(import.meta.dir, '../..')

/** One block of a how-to: a whole new file, or a change of an existing one. */
export interface Edit {
  /** The how-to that it stands in. */
  document: string
  /** The file, from the root. */
  path: string
  isDiff: boolean
  code: string
}

/** A document that says how to add something: its edits, and the commands that judge them. */
export interface HowTo extends Document {
  edits: Edit[]
  /** The arguments of its `bun test` lines. */
  tests: string[][]
}

/** Reads every document below `docs/how-to/`. */
export async function readHowTos(): Promise<HowTo[]> {
  const documents = await readDocuments()
  return documents
    .filter(({ path }) => path.startsWith('docs/how-to/'))
    .map(document => ({ ...document, edits: listEdits(document), tests: listTests(document) }))
}

/** Lists the blocks whose info string names a file. */
const listEdits = (document: Document): Edit[] =>
  listBlocks(document)
    .filter(({ language, info }) => language !== 'sh' && info !== '')
    .map(({ document, language, info, code }) => ({
      document,
      path: info,
      isDiff: language === 'diff',
      code,
    }))

const listTests = (document: Document): string[][] =>
  listBlocks(document)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.split('\n'))
    .filter(line => line.startsWith('bun test '))
    .map(line => splitCommand(line).slice(2))

/** What a copy has of the project. The rest is linked or not needed. */
const COPIED = [
  'src',
  'docs',
  'test',
  'scripts',
  'package.json',
  'tsconfig.json',
  'biome.json',
  'bunfig.toml',
]

/** Copies the project into a fresh temporary directory. The caller removes it. */
export function copyProject(): string {
  const copy = mkdtempSync(join(tmpdir(), 'gateway-how-to-'))
  for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

/** Does in a copy what an edit says. Throws if it does not fit the file. */
export function applyEdit(copy: string, { document, path, isDiff, code }: Edit): void {
  const file = join(copy, path)
  const before = readIfPresent(file)
  const at = `${document}: ${path}`
  if (isDiff && before === undefined) throw new Error(`${at}: there is no such file to change`)
  if (!isDiff && before !== undefined) throw new Error(`${at}: the new file exists already`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, isDiff ? applyDiff(before ?? '', code, at) : code)
}

function readIfPresent(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Applies the hunks of a diff, which lines with `@@` separate. Throws unless the lines that a hunk
 * keeps and removes are in the text, once and together.
 */
export function applyDiff(text: string, diff: string, at: string): string {
  const hunks = diff.replace(/\n$/, '').split(/^@@.*\n/m)
  return hunks
    .filter(hunk => hunk.trim() !== '')
    .reduce((all, hunk) => applyHunk(all, hunk, at), text)
}

function applyHunk(text: string, hunk: string, at: string): string {
  const lines = hunk.replace(/\n$/, '').split('\n')
  const before = selectLines(lines, '+')
  const found = `\n${text}`.split(`\n${before}`).length - 1
  if (found === 0) throw new Error(`${at}: the file does not have these lines:\n${before}`)
  if (found > 1) throw new Error(`${at}: the file has these lines ${found} times:\n${before}`)
  return `\n${text}`.replace(`\n${before}`, () => `\n${selectLines(lines, '-')}`).slice(1)
}

/** Returns the lines of a hunk without those that begin with this sign. */
const selectLines = (lines: string[], without: '+' | '-'): string =>
  lines
    .filter(line => !line.startsWith(without))
    .map(line => `${line.slice(1)}\n`)
    .join('')

/** Checks the types of a copy's source and of these files. Returns what is wrong. */
export function checkTypes(copy: string, files: string[]): Promise<string> {
  const config = { extends: './tsconfig.json', include: ['src', ...files] }
  writeFileSync(join(copy, 'tsconfig.how-to.json'), JSON.stringify(config))
  return findFailure(copy, ['tsc', '--noEmit', '--singleThreaded', '-p', 'tsconfig.how-to.json'])
}

/** Checks the format and the style of these files of a copy. Returns what is wrong. */
export const checkStyle = (copy: string, files: string[]): Promise<string> =>
  findFailure(copy, ['biome', 'ci', '--colors=off', '--error-on-warnings', ...files])

/** Runs tests in a copy as `npm test` does, in one process. Returns what failed. */
export const runTests = (copy: string, words: string[]): Promise<string> =>
  findFailure(copy, [
    'bun',
    'test',
    '--no-isolate',
    '--only-failures',
    '--timeout',
    '60000',
    ...words,
  ])

/** What `npm test` tells the engine. */
const OF_ENGINE = {
  BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: '1000000',
  MIMALLOC_PURGE_DELAY: '1000',
}

/** Runs a program in a copy. Returns an empty text if it succeeds, else what it printed. */
async function findFailure(copy: string, [program = '', ...words]: string[]): Promise<string> {
  const path = program === 'bun' ? process.execPath : join(copy, 'node_modules/.bin', program)
  const child = Bun.spawn([path, ...words], {
    cwd: copy,
    // The copy has no binary: its tests run the source.
    // As in `npm run types`, the compiler collects less often.
    env: {
      ...{ ...process.env, ...OF_ENGINE, GATEWAY_SHARED: SHARED, GATEWAY_TEST_BINARY: undefined },
      GOGC: '400',
    },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const printed = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return (await child.exited) === 0 ? '' : printed.join('\n')
}
