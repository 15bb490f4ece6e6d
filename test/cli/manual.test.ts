import { expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createProgram } from '../../src/cli/main.ts'
import { renderMarkdown } from '../../src/cli/manual/markdown.ts'
import { renderRoff } from '../../src/cli/manual/roff.ts'
import { type Entry, listPages } from '../../src/cli/manual.ts'
import { runCommand } from '../support/commands.ts'

const EVERY = ['--json', '--field', '--data', '--config']

const program = await createProgram()
const pages = listPages(program)

test('docs/reference.md is what the definitions say: bun run docs writes it', async () => {
  const written = await Bun.file(resolve(import.meta.dir, '../../docs/reference.md')).text()
  expect(renderMarkdown(pages)).toBe(written)
})

test('a page has all that the help has', async () => {
  const { stdout } = await runCommand(['man', 'keys', 'create'])
  const { stdout: help } = await runCommand(['keys', 'create', '--help'])
  const plain = stdout.replaceAll('\\-', '-')
  const flags = [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag = '']) => flag)
  expect(flags.length).toBeGreaterThan(8)
  for (const flag of flags) expect(plain).toContain(flag)
  for (const line of [...help.matchAll(/^ {2}(gateway .*)$/gm)])
    expect(plain).toContain(line[1] ?? '')
})

test('a page has no option that its command refuses, and docs/commands.md names those', async () => {
  const commands = pages.filter(({ words, children }) => words.length > 0 && children.length === 0)
  const flags = (entries: Entry[]) => entries.map(({ term }) => term.split(' ')[0] ?? '')
  const exceptions = commands.flatMap(({ words, common }) => {
    const missing = EVERY.filter(flag => !flags(common).includes(flag))
    return missing.length > 0 ? [[words.join(' '), missing.join(' ')]] : []
  })
  const serve = commands.find(({ words }) => words[0] === 'serve')
  expect(flags(serve?.common ?? [])).toEqual(['--data', '--config', '-h,'])
  const text = await Bun.file(resolve(import.meta.dir, '../../docs/commands.md')).text()
  const rows = text.matchAll(/^\| No ((?:`--\w+`(?:, )?)+) \| (.*) \|$/gm)
  const told = [...rows].flatMap(([, without = '', names = '']) =>
    [...names.matchAll(/`gateway ([^`]+)`/g)].map(([, name]) => [
      name,
      without.replaceAll(/[`,]/g, ''),
    ]),
  )
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(exceptions))
})

test('gateway man --out writes a page for each command, and man can show every one', async () => {
  const out = mkdtempSync(join(tmpdir(), 'gateway-man-'))
  const { code, stderr } = await runCommand(['man', '--out', out])
  expect([code, stderr]).toEqual([0, `Wrote ${pages.length} pages into ${out}\n`])
  expect(readdirSync(out)).toContain('gateway-scim-token-create.1')
  const all = readdirSync(out).map(name => readFileSync(join(out, name), 'utf8'))
  // A line that begins with a dot is a macro: of those that are used, and no text is one.
  const macros = all.flatMap(text => text.match(/^['.]\S*/gm) ?? [])
  expect([...new Set(macros)].sort()).toEqual(['.B', '.EE', '.EX', '.PP', '.SH', '.TH', '.TP'])
  if (Bun.which('groff')) {
    const names = readdirSync(out).map(name => join(out, name))
    const { stdout, stderr } = Bun.spawnSync(['groff', '-man', '-Tutf8', '-ww', ...names])
    expect(stderr.toString()).toBe('')
    expect(stdout.toString()).toContain('gateway serve')
  }
  rmSync(out, { recursive: true })
})

test('texts cannot be taken for roff', () => {
  const page = { ...(pages[0] as (typeof pages)[number]), description: ".so /etc/passwd \\n 'x" }
  const roff = renderRoff({ ...page, options: [{ term: '--x', meaning: ".de 'x \\*" }] })
  expect(roff).toContain('\n\\&.de')
  expect(roff).not.toMatch(/\\[n*]/)
})

test.each([
  [['man', 'nothing'], 3],
  [['man', 'keys', '--out', '/nowhere'], 2],
])('%j is refused', async (args, code) => {
  expect((await runCommand(args)).code).toBe(code)
})
