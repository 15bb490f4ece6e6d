import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Server, startServer } from '../support/server.ts'
import { startUpstream, stream, type Upstream } from '../support/upstream.ts'

const MODEL = 'openai/gpt-6-luna'
const json = { model: MODEL, stream: true, messages: [{ role: 'user', content: 'Hello there' }] }

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(stream(['Hello ', 'from ', 'a ', 'model']))
})
afterAll(() => upstream.close())

const start = (config: Record<string, unknown> = {}) =>
  startServer({ config, env: { OPENAI_API_KEY: 'sk-canary', OPENAI_BASE_URL: upstream.url } })

async function readAuthorization(server: Server): Promise<string | undefined> {
  const before = upstream.hits.length
  const response = await server.fetch('/chat/completions', { json })
  await response.text()
  return upstream.hits[before]?.headers.authorization
}

describe('a provider of the environment', () => {
  test('X-34 answers with a real model, and its key is nowhere to be seen', async () => {
    await using server = await start()
    const response = await server.fetch('/chat/completions', { json })
    const text = await response.text()
    expect([response.status, text]).toEqual([200, expect.stringContaining('"from "')])
    expect(upstream.hits.at(-1)).toMatchObject({
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer sk-canary' },
    })
    const answers = [text]
    for (const path of ['/models?q=luna', '/providers', '/key'])
      answers.push(await (await server.fetch(path)).text())
    answers.push((await server.stop()).stderr)
    expect(answers.join('\n')).not.toContain('canary')
  })

  test('is the config’s alone where that names it', async () => {
    await using server = await start({
      providers: { openai: { api_key: 'named', base_url: upstream.url } },
    })
    expect(await readAuthorization(server)).toBe('Bearer named')
  })

  test('is not there where the config wants none', async () => {
    await using server = await start({ providers_from_environment: false })
    expect((await server.fetch('/chat/completions', { json })).status).toBe(404)
    expect(await readAuthorization(server)).toBeUndefined()
  })

  test('stays when the config changes, until that names it', async () => {
    await using server = await start()
    const change = (settings: object) => {
      writeFileSync(join(server.data, 'gateway.yaml'), JSON.stringify(settings))
      server.process.kill('SIGHUP')
    }
    const readTitle = async () => {
      const { info } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
        info: { title: string }
      }
      return info.title
    }
    change({ service_name: 'renamed' })
    while ((await readTitle()) !== 'renamed') await Bun.sleep(20)
    expect(await readAuthorization(server)).toBe('Bearer sk-canary')
    const providers = { openai: { api_key: 'named', base_url: upstream.url } }
    change({ service_name: 'again', providers })
    while ((await readTitle()) !== 'again') await Bun.sleep(20)
    expect(await readAuthorization(server)).toBe('Bearer named')
    change({ service_name: 'last', providers_from_environment: false })
    while ((await readTitle()) !== 'last') await Bun.sleep(20)
    expect(await readAuthorization(server)).toBeUndefined()
  })
})
