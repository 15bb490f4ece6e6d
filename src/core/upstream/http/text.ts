import type { Incoming } from './exchange.ts'

/** A body's text, as it comes. Throws past so many bytes. */
export async function textOf(incoming: Pick<Incoming, 'read'>, largest: number, touched: () => void): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    touched()
    size += bytes.length
    if (size > largest) throw new Error('An answer that is too large')
    text += decoder.decode(bytes, { stream: true })
  }
  return text + decoder.decode()
}
