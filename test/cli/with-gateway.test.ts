import { afterAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../support/database.ts'
import { runGateway } from '../support/server.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const emptyDirectory = () => mkdtempSync(join(directory, 'd-'))

describe('a command in the wrong directory', () => {
  const needData = [
    ['keys', 'list'],
    ['keys', 'create', '--name', 'x'],
    ['workspaces', 'list'],
    ['generations', 'list'],
    ['credits', 'show'],
    ['audit', 'list'],
    ['guardrails', 'list'],
    ['presets', 'list'],
    ['scim', 'token', 'list'],
    ['doctor'],
  ]

  test.each(needData)('finds no data and makes none: %s %s', async (...args) => {
    const cwd = emptyDirectory()
    const { code, stdout, stderr } = await runGateway(args.filter(Boolean), { cwd })
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toMatch(
      /^gateway: There is no data of a gateway in \S+\/gateway-data: [^\n]+\n$/,
    )
    expect(readdirSync(cwd)).toEqual([])
  })

  test('makes none in a named directory that has none either', async () => {
    const [cwd, data] = [emptyDirectory(), emptyDirectory()]
    for (const env of [{}, { GATEWAY_DATA: data }]) {
      const args = ['keys', 'list', ...('GATEWAY_DATA' in env ? [] : ['--data', data])]
      expect((await runGateway(args, { cwd, env })).code).toBe(3)
    }
    expect([readdirSync(cwd), readdirSync(data)]).toEqual([[], []])
  })

  test('works where it needs none, and makes none', async () => {
    const cwd = emptyDirectory()
    const request = JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }] })
    for (const args of [
      ['models', 'list', '--all', '--output', 'all'],
      ['models', 'get', 'sandbox/echo'],
      ['providers', 'list'],
      ['providers', 'check'],
      ['explain', '-'],
      ['config', 'check'],
    ]) {
      const { code, stderr } = await runGateway(args, { cwd, stdin: request })
      const said = args.join(' ') === 'providers check' ? 'No providers found\n' : ''
      expect([args, code, stderr]).toEqual([args, 0, said])
    }
    expect(readdirSync(cwd)).toEqual([])
  })
})

describe('a command for administrators', () => {
  test('needs no secret of a provider', async () => {
    const cwd = emptyDirectory()
    const providers = { openai: { api_key: `\${NO_SUCH_VARIABLE}` } }
    writeFileSync(join(cwd, 'gateway.yaml'), JSON.stringify({ providers }))
    expect((await runGateway(['init'], { cwd })).code).toBe(0)
    for (const args of [
      ['keys', 'create', '--name', 'x'],
      ['keys', 'list'],
      ['models', 'list', '--provider', 'openai'],
      ['doctor'],
    ])
      expect([args, (await runGateway(args, { cwd })).code]).toEqual([args, 0])
    for (const args of [
      ['serve', '--port', '0'],
      ['config', 'check'],
      ['providers', 'check'],
    ]) {
      const { code, stderr } = await runGateway(args, { cwd })
      expect([args, code]).toEqual([args, 2])
      expect(stderr).toContain('NO_SUCH_VARIABLE')
    }
  })

  test('still reports what is wrong in the config', async () => {
    const cwd = emptyDirectory()
    mkdirSync(join(cwd, 'gateway-data'))
    writeFileSync(join(cwd, 'gateway.yaml'), '{}')
    await runGateway(['init'], { cwd })
    writeFileSync(join(cwd, 'gateway.yaml'), '{ default_model: 7 }')
    expect((await runGateway(['keys', 'list'], { cwd })).code).toBe(2)
  })
})

test('a created secret is alone on stdout, so that a script can take it', async () => {
  const cwd = emptyDirectory()
  await runGateway(['init'], { cwd })
  const key = await runGateway(['keys', 'create', '--name', 'x'], { cwd })
  expect(key.stdout).toMatch(/^gw-v1-[0-9a-f]{72}\n$/)
  expect(key.stderr).toMatch(/^This key is shown once\. Its hash is [0-9a-f]{64}\n$/)
  const token = await runGateway(['scim', 'token', 'create', '--name', 'x'], { cwd })
  expect(token.stdout).toMatch(/^gw-scim-v1-[0-9a-f]{72}\n$/)
  expect(token.stderr).toStartWith('This token is shown once')
})

test('a command that reads writes nothing, and waits for nobody who writes', async () => {
  const data = emptyDirectory()
  await runGateway(['init', '--data', data])
  using db = openDatabase(data)
  db.run('begin immediate')
  const { code, stdout } = await runGateway(['workspaces', 'list', '--data', data])
  db.run('rollback')
  expect([code, stdout]).toEqual([0, expect.stringContaining('default')])
})
