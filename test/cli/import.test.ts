import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hashSecret } from '../../src/base/credential.ts'
import { runCommand } from '../support/commands.ts'

let data: string

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-import-'))
  await runCommand(['init', '--data', data])
})
afterAll(() => rmSync(data, { recursive: true, force: true }))

async function runImport(exported: string, ...flags: string[]) {
  const path = join(data, 'export.json')
  await Bun.write(path, exported)
  return runCommand(['import', path, ...flags, '--data', data])
}

const LITELLM = JSON.stringify({ keys: [{ token: hashSecret('sk-1'), key_alias: 'ci' }] })
const OPENROUTER = JSON.stringify({ data: [{ hash: 'f'.repeat(64), name: 'prod', limit: 5 }] })

test('an import is shown first, and then done once', async () => {
  const shown = await runImport(LITELLM)
  expect(shown).toMatchObject({ code: 0, stdout: expect.stringContaining('--yes creates 1 of 1') })
  const list = () => runCommand(['keys', 'list', '--data', data])
  expect((await list()).stdout).not.toContain('ci')
  expect((await runImport(LITELLM, '--yes')).stdout).toContain('Created 1 of 1')
  expect((await list()).stdout).toContain('ci')
  expect((await runImport(LITELLM, '--yes')).stdout).toContain('Created 0 of 1')
})

test('new secrets are told once', async () => {
  const made = await runImport(OPENROUTER, '--yes', '--json')
  expect(JSON.parse(made.stdout).data[0].key).toStartWith('gw-v1-')
  const again = await runImport(OPENROUTER, '--yes', '--json')
  expect(JSON.parse(again.stdout).data[0]).toMatchObject({ action: 'there', key: null })
})

test('what is wrong is named', async () => {
  const bad = JSON.stringify({ keys: [{ token: hashSecret('sk-2') }, { token: 7 }] })
  expect(await runImport(bad)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('keys.1: token: expected'),
  })
  expect(await runImport('no')).toMatchObject({ code: 2, stderr: expect.stringContaining('JSON') })
  expect(await runImport('{}')).toMatchObject({ code: 2 })
  const missing = await runCommand(['import', 'none.json', '--data', data])
  expect(missing).toMatchObject({ code: 3 })
})
