import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { renderConfig, renderEmptyConfig } from '../../src/cli/commands/init/config-text.ts'
import { SCHEMA_LINE } from '../../src/config/editor-schema.ts'
import { runCommand } from '../support/commands.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-config-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
let cwd: string
beforeEach(() => {
  cwd = mkdtempSync(join(directory, 'd-'))
})
const run = (args: string[], env: Record<string, string> = {}) =>
  runCommand(['config', ...args], { cwd, env })

describe('config init', () => {
  test('writes a config that is taken, and the schema that its first line names', async () => {
    expect((await run(['init'])).code).toBe(0)
    expect(readdirSync(cwd).toSorted()).toEqual(['gateway.schema.json', 'gateway.yaml'])
    expect(readFileSync(join(cwd, 'gateway.yaml'), 'utf8')).toStartWith(`${SCHEMA_LINE}\n`)
    const schema = JSON.parse(readFileSync(join(cwd, 'gateway.schema.json'), 'utf8'))
    expect(schema).toEqual(JSON.parse((await run(['schema'])).stdout))
    expect((await run(['check'])).code).toBe(0)
  })

  const EXAMPLE = /^( *)# ([a-z_]+: .*)$/
  const env = { OPENAI_API_KEY: 'x', ANTHROPIC_API_KEY: 'x' }
  const texts = ['openai', 'anthropic'].map(slug =>
    renderConfig({ slug, settings: { api_key: 'x' }, model: null }),
  )

  test.each([renderEmptyConfig(), ...texts])(
    'writes examples that are taken, each alone and all together: %#',
    async text => {
      const lines = text.split('\n')
      const examples = lines.flatMap((line, i) => (EXAMPLE.test(line) ? [i] : []))
      expect(examples.length).toBeGreaterThanOrEqual(4)
      const uncomment = (chosen: number[]) =>
        lines
          .map((line, i) => (chosen.includes(i) ? line.replace(EXAMPLE, '$1$2') : line))
          .join('\n')
      for (const chosen of [[], examples, ...examples.map(i => [i])]) {
        writeFileSync(join(cwd, 'gateway.yaml'), uncomment(chosen))
        const { code, stderr } = await run(['check'], env)
        expect([chosen, code, stderr]).toEqual([chosen, 0, ''])
      }
    },
  )

  test('replaces no config, and makes no data directory', async () => {
    writeFileSync(join(cwd, 'gateway.yaml'), '{}')
    expect(await run(['init'])).toMatchObject({ code: 4, stdout: '' })
    expect(await run(['init', '--data', join(cwd, 'other')])).toMatchObject({ code: 3 })
    expect(readdirSync(cwd)).toEqual(['gateway.yaml'])
  })

  test('writes where --config says, else into the data directory', async () => {
    await runCommand(['init'], { cwd })
    expect((await run(['init'])).code).toBe(0)
    expect(existsSync(join(cwd, 'gateway-data', 'gateway.yaml'))).toBe(true)
    expect((await run(['init', '--config', 'conf/mine.yaml'])).code).toBe(0)
    expect(existsSync(join(cwd, 'conf', 'gateway.schema.json'))).toBe(true)
  })
})

describe('config show', () => {
  const CANARY = 'sk-canary-0123456789'
  const TEXT = `limits: { max_tokens: 500 }
providers:
  openai: { api_key: "\${OPENAI_API_KEY}" }
  local:
    protocol: openai-chat
    base_url: http://127.0.0.1:1
    api_key: ${CANARY}
    headers: { x-team: ${CANARY} }
`
  const settings = async (env: Record<string, string>, ...more: string[]) => {
    const { code, stdout } = await run(['show', '--json', ...more], env)
    expect([code, stdout.includes('canary')]).toEqual([0, false])
    const { data } = JSON.parse(stdout)
    return Object.fromEntries(
      data.map(({ setting, ...rest }: { setting: string }) => [setting, rest]),
    )
  }

  test('shows every setting with its source, and no secret', async () => {
    writeFileSync(join(cwd, 'gateway.yaml'), TEXT)
    const shown = await settings({ OPENAI_API_KEY: CANARY, ANTHROPIC_API_KEY: CANARY })
    expect(shown).toMatchObject({
      'server.port': { value: 8080, source: 'default' },
      'limits.max_tokens': { value: 500, source: 'gateway.yaml:1:11' },
      'providers.openai.api_key': {
        value: '••••••',
        source: `gateway.yaml:3:13 \${OPENAI_API_KEY}`,
      },
      'providers.local.base_url': { value: 'http://127.0.0.1:1', source: 'gateway.yaml:6:5' },
      'providers.local.api_key': { value: '••••••', source: 'gateway.yaml:7:5' },
      'providers.local.headers.x-team': { value: '••••••' },
      'providers.anthropic.api_key': {
        value: '••••••',
        source: 'environment: ANTHROPIC_API_KEY',
      },
    })
  })

  test('shows where databases are, and not what opens them', async () => {
    const [postgres, valkey] = ['postgres://me:canary@db:5432/x', 'redis://:canary@hot:6379/0']
    writeFileSync(
      join(cwd, 'gateway.yaml'),
      `storage:
  postgres: { url: "${postgres}?sslmode=require&password=canary&sslkey=canary" }
  valkey: { url: "${valkey}" }
  files: disk
`,
    )
    expect(await settings({})).toMatchObject({
      'storage.postgres.url': {
        value: 'postgres://••••••@db:5432/x?sslmode=require&password=••••••&sslkey=••••••',
      },
      'storage.valkey.url': { value: 'redis://••••••@hot:6379/0' },
    })
  })

  test('needs no secret, and invents nothing for a missing one', async () => {
    writeFileSync(join(cwd, 'gateway.yaml'), TEXT)
    const shown = await settings({})
    expect(shown['providers.openai.api_key'].value).toBe('••••••')
    expect(shown['providers.openai.auth']).toBeUndefined()
  })

  test('shows with --set what is not the default', async () => {
    writeFileSync(join(cwd, 'gateway.yaml'), 'limits: { max_tokens: 500 }')
    expect(Object.keys(await settings({}, '--set'))).toContain('limits.max_tokens')
    expect(await settings({}, '--set')).not.toHaveProperty('server.port')
    expect((await run(['show', '--set'])).stdout).toMatch(
      /^SETTING +VALUE +FROM\n(.*\n)*limits\.max_tokens +500 +gateway\.yaml:1:11\n/,
    )
  })

  test('refuses a wrong config as config check does', async () => {
    writeFileSync(join(cwd, 'gateway.yaml'), 'limits: { max_tokens: none }')
    const [shown, checked] = [await run(['show']), await run(['check'])]
    expect(shown).toEqual(checked)
    expect(shown.code).toBe(2)
  })
})
