import { createServer, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { CERTIFICATE } from './certificate.ts'

/** A mail as a server has got it. */
export interface ReceivedMail {
  from: string
  to: string[]
  /** Headers and text, as they were sent. */
  text: string
}

/** A mail server on loopback, whose replies a test decides. */
export interface MailServer {
  port: number
  readonly mails: ReceivedMail[]
  /** Every line of every client, but for the mails. */
  readonly lines: string[]
  /** Replies to a command by its first word; `undefined` as a good server, null not at all. */
  reply: (word: string) => string | null | undefined
  close(): Promise<void>
}

const GOOD: Record<string, string> = {
  GREETING: '220 mail.example ESMTP',
  EHLO: '250-mail.example\r\n250 AUTH PLAIN',
  AUTH: '235 2.7.0 Accepted',
  DATA: '354 Go on',
  STARTTLS: '502 Not implemented',
  QUIT: '221 Bye',
}

/** Starts a mail server: over TLS from the first byte on, or without any. */
export async function startMailServer({ isTls = false } = {}): Promise<MailServer> {
  const sockets = new Set<Socket>()
  const serve = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    converse(server, socket)
  }
  const listener = isTls ? createTlsServer(CERTIFICATE, serve) : createServer(serve)
  const server: MailServer = {
    ...{ port: 0, mails: [], lines: [], reply: () => undefined },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>(resolve => listener.close(() => resolve()))
    },
  }
  await new Promise<void>(resolve => listener.listen(0, '127.0.0.1', () => resolve()))
  server.port = (listener.address() as { port: number }).port
  return server
}

/** The reply to STARTTLS after which it speaks TLS. */
export const TLS_BEGINS = '220 Go on'

function converse(server: MailServer, socket: Socket, greets = true): void {
  let text = ''
  let mail: ReceivedMail = { from: '', to: [], text: '' }
  let isData = false
  const answer = (word: string) => {
    const reply = server.reply(word)
    if (reply !== null) socket.write(`${reply ?? GOOD[word] ?? '250 Ok'}\r\n`)
  }
  const take = (line: string) => {
    server.lines.push(line)
    const word = line.split(/[ :]/)[0]?.toUpperCase() ?? ''
    if (word === 'MAIL') mail = { from: line, to: [], text: '' }
    if (word === 'RCPT') mail.to.push(line)
    if (word === 'STARTTLS' && server.reply(word) === TLS_BEGINS) {
      answer(word)
      socket.removeAllListeners('data')
      const secure = new TLSSocket(socket, { isServer: true, ...CERTIFICATE })
      secure.on('error', () => undefined)
      return converse(server, secure, false)
    }
    isData = word === 'DATA' && server.reply(word) === undefined
    answer(word)
  }
  socket.on('data', bytes => {
    text += bytes.toString('utf8')
    for (;;) {
      const end = text.indexOf(isData ? '\r\n.\r\n' : '\r\n')
      if (end === -1) return
      const found = text.slice(0, end)
      text = text.slice(end + (isData ? 5 : 2))
      if (isData) {
        server.mails.push({ ...mail, text: found })
        isData = false
        answer('MESSAGE')
      } else take(found)
    }
  })
  if (greets) answer('GREETING')
}
