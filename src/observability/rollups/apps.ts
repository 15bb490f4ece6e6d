import type { Generation } from '../generations/store.ts'

/** An app that calls. */
export interface App {
  id: number
  /** The same for all of its calls. */
  identity: string
  name: string
  /** Stable, and of one app. */
  slug: string
}

/** What is known of an app from a call. The slug is its own if no other app has it. */
export type AppSignature = Omit<App, 'id'>

const LONGEST = 200
/** Apps that run on their users' machines have no address of their own. */
const LOCAL_HOST = /^(localhost|127(\.\d+){3}|\[::1\]|0\.0\.0\.0)$/

/**
 * Returns which app made a call: by the address in `HTTP-Referer`, else by its title. Null for a
 * call that names none.
 */
export function identifyApp({
  http_referer,
  title,
}: Pick<Generation, 'http_referer' | 'title'>): AppSignature | null {
  const name = cut(title ?? '')
  const address = readAddress(cut(http_referer ?? ''))
  if (address === null) return name === '' ? null : sign(`title ${name.toLowerCase()}`, name)
  if (address.isLocal && name !== '') return sign(`local ${name.toLowerCase()}`, name)
  return sign(`address ${address.text}`, name || address.text, address.text)
}

const cut = (text: string) => text.trim().slice(0, LONGEST)

const sign = (identity: string, name: string, source = name): AppSignature => ({
  identity,
  name,
  slug: toSlug(source),
})

function readAddress(text: string): { text: string; isLocal: boolean } | null {
  if (text === '') return null
  if (!URL.canParse(text)) return { text: text.toLowerCase(), isLocal: false }
  const { host, hostname, pathname } = new URL(text)
  const isLocal = LOCAL_HOST.test(hostname)
  const shown = `${host.replace(/^www\./, '')}${pathname}`.replace(/\/+$/, '')
  return { text: shown || text.toLowerCase(), isLocal }
}

const toSlug = (text: string): string =>
  text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '') || 'app'
