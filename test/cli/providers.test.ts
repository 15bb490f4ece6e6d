import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'

import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

const KEY = 'sk-very-secret'
let upstream: Upstream
let cwd: string

beforeAll(async () => {
  upstream = await startUpstream()
  cwd = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const provider = (name: string) => ({
    protocol: 'openai-chat',
    base_url: `${upstream.url}/${name}`,
    api_key: KEY,
  })
  const providers = {
    good: provider('good'),
    bad: provider('bad'),
    silent: provider('silent'),
    open: provider('open'),
  }
  writeFileSync(join(cwd, 'gateway.yaml'), JSON.stringify({ providers }))
})
afterAll(async () => {
  await upstream.close()
  rmSync(cwd, { recursive: true, force: true })
})
beforeEach(() => {
  upstream.answer(({ path, headers }) => {
    if (path.includes('/silent/')) return { wait: 'never' }
    const isRefused =
      path.includes('/bad/') ||
      (path.includes('/good/') && headers.authorization !== `Bearer ${KEY}`)
    return isRefused ? status(401, `Wrong key: ${headers.authorization}`) : json({ data: [] })
  })
})

const check = (...args: string[]) => runCommand(['providers', 'check', ...args], { cwd })

describe('providers check', () => {
  test('shows the state of each, and fails with 1 when one fails', async () => {
    const { code, stdout, stderr } = await check('--timeout', '0.5')
    const rows = stdout.trimEnd().split('\n')
    expect([code, stderr, stdout.includes('secret')]).toEqual([1, '', false])
    expect(rows[0]).toMatch(/^PROVIDER +STATE +STATUS +MS +FOUND$/)
    expect(rows[1]).toMatch(/^good +ok +200 +\d+ +-$/)
    expect(rows[2]).toMatch(/^bad +WRONG +401 +\d+ +the credential is refused$/)
    expect(rows[3]).toMatch(/^silent +WRONG +- +\d+ +no answer within 0.5 seconds$/)
    expect(rows[4]).toMatch(
      /^open +\? +200 +\d+ +answers; lists its models without a credential, so that was not checked$/,
    )
  })

  test('exits with 0 when each is well or cannot be checked', async () => {
    const { code, stdout } = await check('good', 'open', '--json')
    const milliseconds = expect.any(Number)
    const error = 'answers; lists its models without a credential, so that was not checked'
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      {
        data: [
          { provider: 'good', ok: true, status: 200, milliseconds, error: null },
          { provider: 'open', ok: null, status: 200, milliseconds, error },
        ],
      },
    ])
  })

  test.each([
    [3, ['nobody']],
    [2, ['openai']],
    [2, ['--timeout', '0']],
    [2, ['--timeout', '601']],
    [2, ['--timeout', 'long']],
  ])('ends with %d for %p', async (code, args) => {
    const ran = await check(...args)
    expect([ran.code, ran.stdout, ran.stderr.trimEnd().split('\n').length]).toEqual([code, '', 1])
  })
})
