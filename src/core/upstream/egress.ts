import type { Config } from '../config.ts'
import type { Cancellation } from '../kernel/cancellation.ts'
import type { UpstreamRequest } from '../protocols/protocol.ts'
import { type HttpAnswer, openHttp } from './http/client.ts'
import { sandbox } from './sandbox.ts'
import { unpacked, unpackedText } from './unpack.ts'

/** One request to the world. */
export interface Outgoing {
  url: string
  headers: Record<string, string>
  body: UpstreamRequest['body']
}

/** The world's answer, its head read and its body not. */
export interface Incoming {
  status: number
  /** A header's value by its lower-case name. */
  header(name: string): string | null
  /** The whole body as text. Throws past so many bytes, packed or not. `touched` is called whenever bytes come. */
  text(largest: number, touched: () => void): string | Promise<string>
  /** The next bytes; null after the last. */
  read(): Promise<Uint8Array | null>
}

/** Asks the world. Cancelling closes the connection at once. */
export type Egress = (outgoing: Outgoing, cancellation: Cancellation) => Promise<Incoming>

/** The only way out of the process: sends to providers, and answers for the sandbox. */
export function openEgress({ timeouts }: Config): Egress {
  const http = openHttp({ connectMilliseconds: timeouts.connect_seconds * 1000 })
  return ({ url, headers, body }, cancellation) => {
    if (url.startsWith('sandbox:')) return sandbox(body, cancellation).then(incomingOf)
    return http.send({ method: 'POST', url, headers, body: JSON.stringify(body) }, cancellation).then(received)
  }
}

function received({ head, exchange }: HttpAnswer): Incoming {
  const coding = head.headers.get('content-encoding') ?? 'identity'
  const read = coding === 'identity' ? () => exchange.read() : unpacked(() => exchange.read(), coding)
  return {
    status: head.status,
    header: name => head.headers.get(name) ?? null,
    read,
    text(largest, touched) {
      const whole = exchange.whole()
      if (whole && coding === 'identity' && whole.length <= largest) return whole.toString()
      return coding === 'identity' ? textOf(read, largest, touched) : unpackedText(() => exchange.read(), coding, largest, touched)
    },
  }
}

/** A platform `Response` in this form. */
export function incomingOf(response: Response): Incoming {
  const reader = response.body?.getReader()
  const read = async () => (await reader?.read())?.value ?? null
  return {
    status: response.status,
    header: name => response.headers.get(name),
    read,
    text: (largest, touched) => textOf(read, largest, touched),
  }
}

async function textOf(read: Incoming['read'], largest: number, touched: () => void): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for (let bytes = await read(); bytes; bytes = await read()) {
    touched()
    size += bytes.length
    if (size > largest) throw new Error('An answer that is too large')
    text += decoder.decode(bytes, { stream: true })
  }
  return text + decoder.decode()
}
