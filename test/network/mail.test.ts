import { afterEach, expect, test } from 'bun:test'
import type { MailConfig } from '../../src/config/mail.ts'
import { sendMail } from '../../src/network/mail.ts'
import { type MailServer, startMailServer, TLS_BEGINS } from '../support/smtp.ts'

const LETTER = {
  to: ['ada@example.com', 'bob@example.com'],
  subject: 'Near',
  text: 'Hello',
  id: 'a1',
}
const LONG = 30_000

const servers: MailServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

async function start(options = {}): Promise<MailServer> {
  const server = await startMailServer(options)
  servers.push(server)
  return server
}

const configOf = ({ port }: { port: number }, more: Partial<MailConfig> = {}): MailConfig => ({
  ...{ host: '127.0.0.1', port, security: 'none', from: 'Gateway <alerts@acme.example>' },
  ...more,
})

test('a mail goes to every address, from one, under its id', async () => {
  const server = await start()
  const config = configOf(server, { user: 'me', password: 'canary' })
  expect(await sendMail(config, LETTER, LONG)).toEqual({ status: 250 })
  expect(server.mails).toMatchObject([
    {
      from: 'MAIL FROM:<alerts@acme.example>',
      to: ['RCPT TO:<ada@example.com>', 'RCPT TO:<bob@example.com>'],
    },
  ])
  const [mail] = server.mails
  expect(mail?.text).toContain('From: Gateway <alerts@acme.example>\r\n')
  expect(mail?.text).toContain('To: ada@example.com, bob@example.com\r\n')
  expect(mail?.text).toContain('Message-ID: <a1@acme.example>\r\n')
  expect(mail?.text).toEndWith('\r\n\r\nHello')
  const plain = Buffer.from('\u0000me\u0000canary').toString('base64')
  expect(server.lines).toContain(`AUTH PLAIN ${plain}`)
})

test('a line break in a subject begins no header, and a dot in a text ends no mail', async () => {
  const server = await start()
  const subject = 'Near\r\nBcc: eve@example.com\u0085X\u2028Y'
  const text = 'One\r\n.\r\nMAIL FROM:<eve@example.com>\r\nTwo'
  expect(await sendMail(configOf(server), { ...LETTER, subject, text }, LONG)).toEqual({
    status: 250,
  })
  expect(server.mails).toHaveLength(1)
  expect(server.mails[0]?.text).toContain('Subject: Near Bcc: eve@example.com X Y\r\n')
  expect(server.mails[0]?.text).not.toMatch(/^Bcc/m)
  expect(server.lines.filter(line => /eve/.test(line))).toEqual([])
})

test.each([
  ['GREETING', '554 No service', 554],
  ['AUTH', '535 5.7.8 Bad credentials of me', 535],
  ['MAIL', '451 Later', 451],
  ['RCPT', '550 No such user ada', 550],
  ['DATA', '552 Too large', 552],
  ['MESSAGE', '554 Refused', 554],
])('what a server says to %s is told by its number alone', async (word, reply, status) => {
  const server = await start()
  server.reply = said => (said === word ? reply : undefined)
  const config = configOf(server, { user: 'me', password: 'canary' })
  expect(await sendMail(config, LETTER, LONG)).toEqual({ status })
})

test('a server that is away, or never speaks, fails', async () => {
  const server = await start()
  await servers.pop()?.close()
  expect(await sendMail(configOf(server), LETTER, LONG)).toEqual({
    failure: expect.stringMatching(/^The mail server cannot be reached \(E\w+\)$/),
  })
  const silent = await start()
  silent.reply = () => null
  expect(await sendMail(configOf(silent), LETTER, 20)).toEqual({
    failure: 'The mail server cannot be reached (ETIMEDOUT)',
  })
})

test('nothing is said to a server that has no encryption, or a certificate of its own making', async () => {
  const plain = await start()
  const config = configOf(plain, { security: 'starttls', user: 'me', password: 'canary' })
  expect(await sendMail(config, LETTER, LONG)).toEqual({ status: expect.any(Number) })
  expect(plain.lines.join('\n')).not.toMatch(/AUTH|MAIL/)
  const stranger = await start({ isTls: true })
  expect(await sendMail(configOf(stranger, { security: 'tls' }), LETTER, LONG)).toEqual({
    failure: expect.stringMatching(/^The mail server cannot be reached \(\w+\)$/),
  })
  expect(stranger.lines).toEqual([])
  const upgrading = await start()
  upgrading.reply = word => (word === 'STARTTLS' ? TLS_BEGINS : undefined)
  expect(await sendMail({ ...config, port: upgrading.port }, LETTER, LONG)).toEqual({
    failure: expect.stringMatching(/^The mail server cannot be reached \(\w+\)$/),
  })
  expect(upgrading.lines.join('\n')).not.toMatch(/AUTH|MAIL/)
})
