import type { MailConfig } from '../config/mail.ts'

/** A mail in plain text. */
export interface Letter {
  to: string[]
  subject: string
  text: string
  /** The part of its Message-ID before the @: the same of one that is sent again. */
  id: string
}

/** What came of a mail: the last reply of the server, or why there is none. */
export type MailOutcome = { status: number } | { failure: string }

/**
 * Sends a mail by the operator's server, within so many milliseconds for each of its steps. Never
 * throws. The certificate of a server has to be good, unless it is asked for nothing at all.
 */
export async function sendMail(
  { host, port, security, user, password, from }: MailConfig,
  { id, subject, ...letter }: Letter,
  milliseconds: number,
): Promise<MailOutcome> {
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    ...{ host, port, secure: security === 'tls', requireTLS: security === 'starttls' },
    ignoreTLS: security === 'none',
    ...(user === undefined || password === undefined ? {} : { auth: { user, pass: password } }),
    ...{ connectionTimeout: milliseconds, dnsTimeout: milliseconds },
    ...{ greetingTimeout: milliseconds, socketTimeout: milliseconds },
    ...{ disableFileAccess: true, disableUrlAccess: true },
  })
  try {
    await transport.sendMail({
      ...{ ...letter, from, subject: subject.replace(LINE_BREAKS, ' ') },
      messageId: `<${id}@${from.split('@').at(-1)?.replace('>', '')}>`,
    })
    return { status: 250 }
  } catch (thrown) {
    return describeFailure(thrown)
  } finally {
    transport.close()
  }
}

/** What would end a header and begin another one. */
const LINE_BREAKS = /[\p{Cc}\u2028\u2029]+/gu

/** What is read of a failure: the server's reply, or what the connection ended by. */
interface MailFailure {
  responseCode?: number
  code?: string
  originalCode?: string
}

// Not with the words of the server: they may be about its users.
function describeFailure(thrown: unknown): MailOutcome {
  const { responseCode, code, originalCode = code } = thrown as MailFailure
  if (typeof responseCode === 'number') return { status: responseCode }
  return { failure: `The mail server cannot be reached (${originalCode ?? 'unknown'})` }
}
