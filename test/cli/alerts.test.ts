import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CERTIFICATE } from '../support/certificate.ts'
import { runCommand } from '../support/commands.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { runGateway } from '../support/server.ts'
import { type MailServer, startMailServer } from '../support/smtp.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
const config = join(data, 'gateway.yaml')
let receiver: Receiver
let mailer: MailServer

beforeAll(async () => {
  receiver = await startReceiver()
  mailer = await startMailServer({ isTls: true })
  const mail = { host: '127.0.0.1', port: mailer.port, security: 'tls', from: 'a@acme.example' }
  const account = { user: 'me', password: `\${MAIL_PASSWORD}` }
  const security = { allow_private_urls: [receiver.host] }
  writeFileSync(config, JSON.stringify({ security, mail: { ...mail, ...account } }))
  writeFileSync(join(data, 'ca.pem'), CERTIFICATE.cert)
  await runCommand(['init', '--data', data])
})
afterAll(async () => {
  await receiver.close()
  await mailer.close()
  rmSync(data, { recursive: true })
})

const line = (...args: string[]) => ['alerts', ...args, '--data', data, '--config', config]
const run = (...args: string[]) =>
  runCommand(line(...args), { env: { HOOK: 'sixteen-characters-or-more' } })

test('an alert is made, listed, tested, changed and deleted by its name', async () => {
  const url = `${receiver.url}/hook`
  const made = await run(
    ...['create', '--name', 'near', '--cause', 'limit_near', '--thresholds', '1,0.5'],
    ...['--webhook', url, '--secret-env', 'HOOK', '--json'],
  )
  expect([made.code, made.stderr]).toEqual([0, ''])
  const to = { type: 'webhook', url, secret: 'sixt...more' }
  expect(JSON.parse(made.stdout).data).toMatchObject({ thresholds: [0.5, 1], to })
  expect((await run('list')).stdout).toMatch(/^near +limit_near +0\.5, 1 +webhook +on /m)
  expect((await run('test', 'near')).stdout).toBe('passed: it answered 200\n')
  receiver.answer = () => ({ status: 500 })
  expect(await run('test', 'near')).toMatchObject({
    ...{ code: 1, stderr: 'gateway: The test failed: It answered 500\n' },
  })
  const changed = await run('update', 'near', '--name', 'nearer', '--disable', '--json')
  expect(JSON.parse(changed.stdout).data).toMatchObject({ name: 'nearer', disabled: true, to })
  expect((await run('delete', 'nearer', '--yes')).stdout).toBe('Deleted nearer\n')
})

test('mail goes to a server whose certificate is good, and to no other', async () => {
  const addresses = 'ada@example.com,bob@example.com'
  await run('create', '--name', 'mail', '--cause', 'credential_ending', '--mail', addresses)
  const refused = await run('test', 'mail')
  expect(refused.stderr).toMatch(
    /^gateway: The test failed: The mail server cannot be reached \(\w+\)\n$/,
  )
  const env = { NODE_EXTRA_CA_CERTS: join(data, 'ca.pem'), MAIL_PASSWORD: 'canary' }
  expect(await runGateway(line('test', 'mail'), { env })).toEqual({
    ...{ code: 0, stdout: 'passed: it answered 250\n', stderr: '' },
  })
  expect(mailer.mails[0]?.to).toHaveLength(2)
  const plain = Buffer.from('\u0000me\u0000canary').toString('base64')
  expect(mailer.lines).toContain(`AUTH PLAIN ${plain}`)
})

test.each([
  [['--thresholds', 'NaN', '--mail', 'a@b.example'], /--thresholds <numbers>.* expected a number/],
  [['--thresholds', '0', '--mail', 'a@b.example'], /--thresholds\.0: expected number above 0/],
  [[], /^gateway: expected one of --webhook, --slack-env and --mail$/m],
  [['--webhook', 'https://a.example'], /--webhook: expected together with --secret-env/],
  [['--slack-env', 'NO_SUCH'], /--slack-env: expected the name of an environment variable/],
  [['--webhook', 'https://a.example', '--mail', 'a@b.example'], /cannot be used with/],
])('a line with %j is refused in one line', async (args, message) => {
  const { code, stderr } = await run('create', '--name', 'x', '--cause', 'limit_near', ...args)
  expect(code).toBe(2)
  expect(stderr).toMatch(message)
  expect(stderr.trim().split('\n')).toHaveLength(1)
})
