import type { Quirks } from '../../config/quirks.ts'

/** The parameters under the server's own names, without those that it refuses. */
export function inItsWords(body: Record<string, unknown>, { renamed, dropped }: Quirks): Record<string, unknown> {
  for (const name in renamed) {
    if (!(name in body)) continue
    body[renamed[name] ?? name] = body[name]
    delete body[name]
  }
  for (const name of dropped) delete body[name]
  return body
}
