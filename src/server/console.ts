import type { Gateway } from '../app/gateway.ts'
import { denied } from '../base/errors.ts'
import { getConsoleUrl } from '../config.ts'

import { readBundle } from './console/bundle.ts'

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Console</title>
<link rel="icon" href="/favicon.ico">
<link rel="stylesheet" href="/console/main.css">
<script type="module" src="/console/main.js"></script>
</head>
<body>
<div id="page"></div>
<noscript>The console is a program in this page. The same can be done with the command
<code>gateway</code>: <code>gateway --help</code> lists what.</noscript>
</body>
</html>
`

// The page runs what came with it, and asks the address where it was opened only.
const HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/** Renders the page of the console. It asks the API for all that it shows. */
export const renderConsolePage = (): Response =>
  new Response(PAGE, {
    headers: {
      ...HEADERS,
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
    },
  })

const TYPES: Record<string, string> = {
  'main.js': 'text/javascript; charset=utf-8',
  'main.css': 'text/css; charset=utf-8',
}

let bundle: Promise<Record<string, Uint8Array<ArrayBuffer>>> | undefined

/** Renders what the page runs or looks like, compressed; undefined for another name. */
export async function renderConsolePart(
  name: string,
  request: Request,
): Promise<Response | undefined> {
  const type = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined
  if (type === undefined) return undefined
  bundle ??= readBundle()
  const bytes = (await bundle)[name] ?? new Uint8Array()
  const etag = `"${Bun.hash(bytes).toString(36)}"`
  const headers = { ...HEADERS, 'cache-control': 'no-cache', etag }
  if (request.headers.get('if-none-match') === etag)
    return new Response(null, { status: 304, headers })
  return new Response(bytes, {
    headers: { ...headers, 'content-type': type, 'content-encoding': 'gzip' },
  })
}

/**
 * The header that the console's page sets. No form and no page of another site can send it with the
 * browser's cookies.
 */
const MARK = 'x-gateway-console'

/** In seconds, as long as a session lasts. */
const LIFETIME = 43_200

/** Whether a request was sent to where people sign in: anywhere, unless that has a host of its own. */
export function isAtConsole(gateway: Gateway, request: Request): boolean {
  if (gateway.config.server.console_host === undefined) return true
  const { protocol, host } = new URL(getConsoleUrl(gateway))
  return URL.parse(`${protocol}//${request.headers.get('host')}`)?.host === host
}

/** Whether the console answers a request: the config has one, and it is at this host. */
export const hasConsole = (gateway: Gateway, request: Request): boolean =>
  gateway.config.server.console && isAtConsole(gateway, request)

const isSecure = ({ instance }: Gateway): boolean => instance.siteUrl.startsWith('https:')

// A browser takes a cookie with this prefix from this host alone, and over TLS.
const getCookieName = (gateway: Gateway): string =>
  isSecure(gateway) ? '__Host-gateway_console' : 'gateway_console'

/** Renders the cookie of a session of the console; of none without a secret. */
export const renderConsoleCookie = (gateway: Gateway, secret: string | null): string =>
  [
    `${getCookieName(gateway)}=${secret ?? ''}; Path=/; Max-Age=${secret === null ? 0 : LIFETIME}`,
    'HttpOnly; SameSite=Strict',
    ...(isSecure(gateway) ? ['Secure'] : []),
  ].join('; ')

/** Returns the secret of the console's session that a request of its page has; undefined without. */
export function readConsoleSession(gateway: Gateway, request: Request): string | undefined {
  const { headers } = request
  if (!headers.has(MARK) || !hasConsole(gateway, request)) return undefined
  const site = headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin') return undefined
  return readCookie(request, getCookieName(gateway)) || undefined
}

/** Reads one cookie of a request. */
export function readCookie(request: Request, name: string): string | undefined {
  const cookies = (request.headers.get('cookie') ?? '').split(';').map(one => one.trim())
  return cookies.find(one => one.startsWith(`${name}=`))?.slice(name.length + 1)
}

/** Refuses a form that another site has sent, as browsers tell. */
export function refuseOtherSites(gateway: Gateway, request: Request): void {
  const origin = request.headers.get('origin')
  const site = request.headers.get('sec-fetch-site')
  const hosts = [new URL(getConsoleUrl(gateway)).host, request.headers.get('host')]
  const isOwn = origin !== null && hosts.includes(URL.parse(origin)?.host ?? '')
  if (!isOwn || (site !== null && site !== 'same-origin'))
    throw denied('This form was not sent from its own page')
}
