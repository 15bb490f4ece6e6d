import type { ConsentQuery } from '../resources/auth-codes/schema.ts'
import { nameApp } from '../resources/auth-codes.ts'
import type { Member } from '../resources/members/store.ts'
import type { Workspace } from '../resources/workspaces/store.ts'

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 4rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } code, pre { overflow-wrap: anywhere; white-space: pre-wrap }
label { display: block; margin: 1rem 0 } input, select { font: inherit; display: block; width: 100% }
button { font: inherit; padding: .5rem 1rem; margin: 1rem 1rem 0 0 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } }
`

/** A page: what it says, its status, and where its forms may lead. */
interface Page {
  title: string
  /** HTML. */
  body: string
  status?: number
  /** The address that a form's answer redirects to, which browsers check, too. */
  leadsTo?: string
  headers?: Record<string, string>
}

/**
 * Renders a page that runs nothing, loads nothing, and stands in no other page. Its address, which
 * may have secrets, is told to no other site.
 */
function renderPage({ title, body, status = 200, leadsTo, headers = {} }: Page): Response {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${Bun.escapeHTML(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${Bun.escapeHTML(title)}</h1>
${body}
</body>
</html>
`
  return new Response(html, {
    status,
    headers: { ...HEADERS, 'content-security-policy': renderPolicy(leadsTo), ...headers },
  })
}

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

// Browsers hold redirects of a form's answer to `form-action`, too.
const renderPolicy = (leadsTo: string | undefined) =>
  [
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    `form-action 'self'${leadsTo === undefined ? '' : ` ${new URL(leadsTo).origin}`}`,
    "frame-ancestors 'none'",
  ].join('; ')

/**
 * Renders the page for someone who is not signed in. `search` is the query to come back to; null
 * where no other service signs members in.
 */
export const renderSignedOut = (search: string | null): Response =>
  renderPage({
    title: 'Sign in first',
    body: `${search === null ? '' : renderStart(search)}<p>The operator of this gateway signs members in with a link:</p>
<pre>gateway members link you@example.com</pre>
<p>Open the link in this browser, then load this page again.</p>`,
  })

const renderStart = (search: string): string =>
  `<p><a href="${Bun.escapeHTML(`/auth/start${search}`)}">Sign in</a> with your organization’s account.</p>\n`

/** Renders the question whether a link is to sign its member in. */
export const renderLink = (token: string, { email }: Member): Response =>
  renderPage({
    title: 'Sign in',
    body: `<p>This link signs you in as <strong>${Bun.escapeHTML(email)}</strong>, in this browser.</p>
<form method="post" action="/auth/sign-in">
${renderHidden({ token })}
<button>Sign in</button>
</form>`,
  })

/** Renders the page after signing in, or for a visit that is about no app. */
export const renderSignedIn = ({ email }: Member, hasConsole: boolean): Response =>
  renderPage({
    title: 'You are signed in',
    body: `<p>You are <strong>${Bun.escapeHTML(email)}</strong>. Go back to the app that sent you
here, or load its page again.</p>
${hasConsole ? '<p><a href="/console">Open the console</a></p>\n' : ''}<form method="post" action="/auth/sign-out"><button>Sign out</button></form>`,
  })

/** What the page of consent shows. */
interface Consent {
  query: ConsentQuery
  member: Member
  workspaces: Workspace[]
  /** Proves that the form was shown to this session, with this query. */
  proof: string
}

/** Renders the question whether an app gets a key. */
export function renderConsent({ query, member, workspaces, proof }: Consent): Response {
  const app = Bun.escapeHTML(nameApp(query))
  const { callback_url } = query
  const place =
    callback_url === undefined
      ? 'The code is shown to you, to be typed into it.'
      : `The answer goes to <code>${Bun.escapeHTML(new URL(callback_url).origin)}</code>.`
  return renderPage({
    title: `Give ${nameApp(query)} a key?`,
    ...(callback_url === undefined ? {} : { leadsTo: callback_url }),
    body: `<p><strong>${app}</strong> asks for an API key of yours
(${Bun.escapeHTML(member.email)}). With it, the app can make calls that count as yours. ${place}</p>
<form method="post" action="/auth">
${renderHidden({ ...query, proof })}
<label>Workspace <select name="workspace_id">${workspaces.map(renderOption).join('')}</select></label>
<label>Limit in USD, or none <input name="limit" inputmode="decimal" autocomplete="off"></label>
<button name="decision" value="allow">Give a key</button>
<button name="decision" value="deny">Refuse</button>
</form>`,
  })
}

const renderOption = ({ id, name }: Workspace): string =>
  `<option value="${Bun.escapeHTML(id)}">${Bun.escapeHTML(name)}</option>`

const renderHidden = (fields: Record<string, string>): string =>
  Object.entries(fields)
    .map(([name, value]) => `<input type="hidden" name="${name}" value="${Bun.escapeHTML(value)}">`)
    .join('\n')

/** Renders a code for an app that has no address. */
export const renderCode = (code: string): Response =>
  renderPage({
    title: 'Your code',
    body: `<p>Type it into the app within ten minutes. It works once.</p>
<pre id="code">${Bun.escapeHTML(code)}</pre>`,
  })

/** Renders why something cannot be done. */
export const renderProblem = (message: string, status: number): Response =>
  renderPage({ title: 'That does not work', status, body: `<p>${Bun.escapeHTML(message)}</p>` })
