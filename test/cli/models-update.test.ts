import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'
import { type Server, startServer } from '../support/server.ts'
import { createSigner } from '../support/signer.ts'
import { body, head, startUpstream, type Upstream } from '../support/upstream.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-models-'))
const [mine, other] = [createSigner(), createSigner()]

/** A catalogue of this day that has one model of OpenAI's, and one of a provider of the future. */
const buildData = (
  generated: string,
  name = 'gpt-100',
  prices: object = { prompt: 1, completion: 2 },
) =>
  JSON.stringify({
    generated,
    sources: [],
    aliases: { 'openai/gpt-hundred': `openai/${name}` },
    models: [
      {
        id: `openai/${name}`,
        name: 'New',
        endpoints: [
          { provider: 'openai', model: name, prices },
          { provider: 'of-the-future', model: name },
        ],
      },
      { id: 'acme/only', name: 'Only', endpoints: [{ provider: 'of-the-future', model: 'x' }] },
    ],
  })

const write = (name: string, text: string): string => {
  const path = join(directory, name)
  writeFileSync(path, text)
  return path
}

let server: Server
let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
  server = await startServer({ config: { catalog: { public_keys: [mine.key] } } })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
  rmSync(directory, { recursive: true, force: true })
})

const update = (source: string, data = server.data) =>
  runCommand(['models', 'update', source, '--data', data])
const hasModel = async (id: string) => (await server.fetch(`/model/${id}`)).status === 200
const readStatus = async () => {
  const { code, stdout } = await runCommand(['status', '--data', server.data, '--json'])
  return { code, ...JSON.parse(stdout).data.catalog }
}
const installed = () => join(server.data, 'catalog.signed')

describe('gateway models update', () => {
  const good = mine.sign(buildData('2100-01-01'))

  test.each([
    ['whose data was changed', good.replace('"New"', '"Old"'), 'its checksum is wrong'],
    ['of another signer', other.sign(buildData('2100-01-01')), 'signed by none of'],
    ['that is older', mine.sign(buildData('2026-01-01')), 'older than what is used'],
    [
      'with a price that is none',
      mine.sign(buildData('2100-01-01', 'gpt-100', { prompt: -1, completion: 2 })),
      'openai/gpt-100 at openai has a price',
    ],
  ])('refuses a file %s, and changes nothing', async (_, text, why) => {
    const { code, stdout, stderr } = await update(write('bad', text))
    expect([code === 0, stdout]).toEqual([false, ''])
    expect(stderr).toContain(why)
    expect(existsSync(installed())).toBe(false)
    expect(await hasModel('openai/gpt-100')).toBe(false)
  })

  test('installs a file, and the running server takes it', async () => {
    expect(await readStatus()).toMatchObject({ code: 0, is_installed: false, problem: null })
    expect(await hasModel('openai/gpt-4o')).toBe(true)
    const { code, stdout, stderr } = await update(write('good', good))
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/generated +2100-01-01\n/)
    expect(stdout).toMatch(/models +1\n/)
    expect(stdout).toMatch(/server +uses it\n/)
    expect(await hasModel('openai/gpt-100')).toBe(true)
    expect(await hasModel('openai/gpt-hundred')).toBe(true)
    expect(await hasModel('openai/gpt-4o')).toBe(false)
    expect(await hasModel('sandbox/echo')).toBe(true)
    expect(await readStatus()).toEqual({
      code: 0,
      generated: '2100-01-01',
      is_installed: true,
      problem: null,
    })
    expect((await runCommand(['status', '--data', server.data])).stdout).toMatch(
      /\ncatalogue +of 2100-01-01, installed\n/,
    )
  })

  test('has other commands on this data read it', async () => {
    const list = await runCommand(['models', 'list', '--all', '--data', server.data])
    expect(list.stdout).toContain('openai/gpt-100')
    const callable = await runCommand(['models', 'list', '--data', server.data])
    expect(callable.stderr).toContain('Catalogue: of 2100-01-01\n')
    const elsewhere = await runCommand(['models', 'list', '--all'], { cwd: directory })
    expect(elsewhere.stdout).not.toContain('openai/gpt-100')
  })

  test('fetches an address', async () => {
    const text = mine.sign(buildData('2100-02-01', 'gpt-200'))
    upstream.plan(body('application/octet-stream', text))
    expect(await update(`${upstream.url}/catalog.signed`)).toMatchObject({ code: 0, stderr: '' })
    expect(upstream.hits.at(-1)).toMatchObject({ method: 'GET', path: '/v1/catalog.signed' })
    expect(await hasModel('openai/gpt-200')).toBe(true)
  })

  test.each([
    ['answers with an error', head(404), 'it answers 404'],
    ['leads elsewhere', head(302, { location: 'https://example.com/' }), 'it answers 302'],
    ['has another file', body('text/html', '<html>'), 'no signed catalogue'],
  ])('refuses an address that %s', async (_, script, why) => {
    upstream.plan(script)
    const before = readFileSync(installed())
    const { code, stderr } = await update(`${upstream.url}/catalog.signed`)
    expect(code).not.toBe(0)
    expect(stderr).toContain(why)
    expect(readFileSync(installed())).toEqual(before)
    expect(await hasModel('openai/gpt-200')).toBe(true)
  })

  test('does not go back, and one that was damaged since is not used', async () => {
    expect((await update(write('good', good))).stderr).toContain(
      'older than what is used (2100-02-01)',
    )
    writeFileSync(installed(), `${readFileSync(installed())} `)
    const list = await runCommand(['models', 'list', '--all', '--data', server.data])
    expect(list.stdout).not.toContain('openai/gpt-200')
    expect(list.stderr).toMatch(
      /Catalogue: of 20\d\d-\d\d-\d\d \(.*catalog\.signed: its checksum is wrong/,
    )
  })

  test('needs a key, which the config has', async () => {
    const config = write('none.yaml', '{}')
    const args = ['--data', server.data, '--config', config]
    const { code, stderr } = await runCommand(['models', 'update', write('good', good), ...args])
    expect(code).not.toBe(0)
    expect(stderr).toContain('catalog.public_keys')
    const wrong = write('wrong.yaml', 'catalog: { public_keys: [abc] }')
    expect((await runCommand(['config', 'check', wrong])).stderr).toContain('catalog.public_keys.0')
  })
})
