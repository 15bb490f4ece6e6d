import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openProgress } from '../../src/cli/commands/files/transfer.ts'
import { runCommand } from '../support/commands.ts'
import { PDF } from '../support/typed-files.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
const data = join(directory, 'data')
const at = (name: string) => join(directory, name)
const run = (...args: string[]) => runCommand([...args, '--data', data], { cwd: directory })
async function runJson(...args: string[]) {
  const { code, stdout, stderr } = await run(...args, '--json')
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

beforeAll(async () => {
  await run('init')
  writeFileSync(at('report.pdf'), PDF)
  writeFileSync(at('empty'), '')
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Finds the blob of a file. */
const findBlob = (id: string) => {
  const name = id.replace('or_file_', '')
  const found = readdirSync(join(data, 'files'), { recursive: true, encoding: 'utf8' })
  return join(data, 'files', found.find(path => path.endsWith(name)) ?? 'missing')
}

describe('gateway files', () => {
  test('uploads, lists, shows, downloads and deletes', async () => {
    const file = await runJson('files', 'upload', 'report.pdf', '--name', 'q1/report.pdf')
    expect(file).toMatchObject({
      _shape: 'openrouter',
      filename: 'q1/report.pdf',
      mime_type: 'application/pdf',
      size_bytes: PDF.length,
      downloadable: false,
    })
    expect(await runJson('files', 'get', file.id)).toEqual(file)
    expect((await runJson('files', 'list')).data).toEqual([file])
    const second = await runJson('files', 'upload', 'report.pdf')
    const listed = await run('files', 'list', '--limit', '1')
    expect(listed.stdout).toContain(second.id)
    expect(listed.stderr).toContain(`--cursor ${second.id}`)
    const rest = await run('files', 'list', '--cursor', second.id)
    expect([rest.stdout.includes(file.id), rest.stdout.includes(second.id)]).toEqual([true, false])
    expect((await run('files', 'download', file.id, '--output', 'copy.pdf')).code).toBe(0)
    expect(PDF.equals(readFileSync(at('copy.pdf')))).toBe(true)
    expect((await run('files', 'download', file.id, '--output', 'copy.pdf')).code).toBe(4)
    expect((await run('files', 'download', file.id, '--output', 'copy.pdf', '--force')).code).toBe(
      0,
    )
    expect((await run('files', 'delete', second.id, '--yes')).stdout).toContain(second.id)
    expect((await run('files', 'get', second.id)).code).toBe(3)
    expect(existsSync(findBlob(second.id))).toBe(false)
    expect(
      (await runJson('audit', 'list')).data.map((entry: { action: string }) => entry.action),
    ).toEqual(expect.arrayContaining(['files.create', 'files.delete']))
  })

  test('show a name that turns the direction of its letters escaped, and save it so', async () => {
    const { id, filename } = await runJson(
      'files',
      'upload',
      'report.pdf',
      '--name',
      'a\u202efdp.x',
    )
    expect(filename).toBe('a\\u202efdp.x')
    expect((await run('files', 'list')).stdout).toContain(filename)
    expect((await run('files', 'download', id)).code).toBe(0)
    expect(existsSync(at(filename))).toBe(true)
    await run('files', 'delete', id, '--yes')
  })

  test.each<[number, ...string[]]>([
    [3, 'upload', 'missing.txt'],
    [2, 'upload', 'data'],
    [2, 'upload', 'empty'],
    [2, 'upload', 'report.pdf', '--name', '../x'],
    [2, 'list', '--limit', '0'],
    [2, 'list', '--cursor', 'x'],
    [3, 'get', 'or_file_x'],
    [3, 'download', 'or_file_x'],
    [3, 'delete', 'or_file_x', '--yes'],
  ])('refuses with %i: %s %s', async (code, ...args: string[]) => {
    const result = await run('files', ...args)
    expect([result.code, result.stdout]).toEqual([code, ''])
    expect(result.stderr).toMatch(/^gateway: [^\n]+\n$/)
  })
})

test('doctor finds a file whose bytes are missing or cut, and a backup says what it lacks', async () => {
  const file = await runJson('files', 'upload', 'report.pdf')
  const finding = async () => {
    const { code, stdout } = await run('doctor', '--json')
    return {
      code,
      ...JSON.parse(stdout).data.find(({ check }: { check: string }) => check === 'files'),
    }
  }
  expect(await finding()).toMatchObject({ code: 0, ok: true })
  const backup = await run('backup', 'all.backup')
  expect([backup.code, backup.stdout]).toEqual([
    0,
    expect.stringContaining('the records of 2 uploaded files and 0 container files, not the bytes'),
  ])
  const whole = await run('backup', 'whole.backup', '--with-files', '--with-secret')
  const held = 'It holds the bytes of 2 uploaded files and 0 container files, '
  expect([whole.code, whole.stdout]).toEqual([0, expect.stringContaining(held)])
  const restored = await runCommand(['restore', 'whole.backup', '--data', 'restored'], {
    cwd: directory,
  })
  expect([restored.code, restored.stdout]).toEqual([0, expect.stringContaining(held)])
  truncateSync(findBlob(file.id), 3)
  expect(await finding()).toMatchObject({
    code: 1,
    ok: false,
    found: `${file.id} is damaged, and has to be stored again: it has 3 bytes, where ${PDF.length} were stored`,
  })
  writeFileSync(findBlob(file.id), Buffer.from(PDF).fill('x', 9, 10))
  const changed = { code: 1, ok: false, found: expect.stringContaining('its bytes were changed') }
  expect(await finding()).toMatchObject(changed)
  rmSync(findBlob(file.id))
  expect(await finding()).toMatchObject({ ok: false, found: expect.stringContaining('missing') })
  await run('files', 'delete', file.id, '--yes')
  expect(await finding()).toMatchObject({ code: 0, ok: true })
})

test('a transfer shows its progress on a terminal, and nothing elsewhere', async () => {
  async function* pieces() {
    for (let i = 0; i < 4; i++) yield new Uint8Array(25)
  }
  for (const isTTY of [true, false]) {
    let written = ''
    const progress = openProgress('a\u001b[2J.txt', 100, {
      isTTY,
      write: text => (written += text),
    })
    let bytes = 0
    for await (const piece of progress.follow(pieces())) bytes += piece.length
    progress.close()
    const clear = '\r\u001b[K'
    const lines = [25, 50, 75, 100].map(percent => `${clear}a\uFFFD[2J.txt  ${percent} %`)
    expect([bytes, written]).toEqual([100, isTTY ? lines.join('') + clear : ''])
  }
})
