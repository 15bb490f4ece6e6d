import type { Gateway } from '../../app/gateway.ts'
import { VERSION } from '../../base/version.ts'
import type { ToldMetrics } from '../../observability/metrics.ts'
import { allowAnyone, identifyManager } from '../access.ts'
import { type Connection, findConnection } from '../connections.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { findUnreadiness, renderHealth, renderReadiness } from '../readiness.ts'
import { Routes } from '../routes.ts'

const describeSiteOperation = (details: Omit<Operation, 'tag' | 'open'>) =>
  describeOperation({ tag: 'Site', open: true, ...details })

/** Creates the routes for visitors, and for operators and their tools: health and readiness. */
export function createSiteRoutes(gateway: Gateway) {
  return new Routes(allowAnyone())
    .get(
      '/',
      ({ request }) => renderHomePage(gateway, findConnection(request)),
      describeSiteOperation({
        id: 'home',
        summary: 'See what this is',
        statuses: [200],
        produces: ['text/html'],
      }),
    )
    .get(
      '/credits',
      () => renderCreditsPage(gateway),
      describeSiteOperation({
        id: 'creditsPage',
        summary: 'Read how credits are added',
        statuses: [200],
        produces: ['text/html'],
      }),
    )
    .get(
      '/favicon.ico',
      () => renderFavicon(),
      describeSiteOperation({
        id: 'favicon',
        summary: 'Get the site’s picture',
        statuses: [200],
        produces: ['image/svg+xml'],
      }),
    )
    .get(
      '/healthz',
      () => renderHealth(gateway),
      describeSiteOperation({
        id: 'healthz',
        summary: 'Check that the process is alive, by another name',
        statuses: [200],
      }),
    )
    .get(
      '/health',
      () => renderHealth(gateway),
      describeSiteOperation({
        id: 'health',
        summary: 'Check that the process is alive',
        statuses: [200],
      }),
    )
    .get(
      '/ready',
      ({ request }) => renderReadiness(gateway, findConnection(request)),
      describeSiteOperation({
        id: 'ready',
        summary: 'Check that it accepts calls',
        statuses: [200, 503],
      }),
    )
}

/**
 * Creates the route of metrics. Whether it requires a key is a setting, which applies to a running
 * server. Without it, whoever reaches the API from elsewhere needs one.
 */
export function createMetricsRoutes(gateway: Gateway, metrics: ToldMetrics) {
  const isOpen = () => {
    const { metrics_key, metrics_address } = gateway.config.server
    const isPrivate = metrics_address !== undefined || gateway.instance.isLocal
    return metrics_key === undefined ? isPrivate : !metrics_key
  }
  return new Routes(allowAnyone()).get(
    '/metrics',
    async ({ request }) => {
      if (!isOpen()) await identifyManager(gateway, request)
      return new Response(await metrics.renderText(), {
        headers: { 'content-type': metrics.contentType },
      })
    },
    describeSiteOperation({
      id: 'metrics',
      summary: 'Get metrics for Prometheus',
      statuses: [200, 401, 403],
      produces: ['text/plain'],
    }),
  )
}

const MARK = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<path fill="none" stroke="#2563eb" stroke-width="4" stroke-linecap="round"
  d="M5 27V16a11 11 0 0 1 22 0v11M13 27V17a3 3 0 0 1 6 0v10"/>
</svg>
`

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 4rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } pre { overflow-x: auto; padding: 1rem; background: #8881 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } a { color: #8ab4f8 } }
`

// The page runs nothing and loads nothing but its picture.
const POLICY = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/**
 * Renders the page at the root: what this is, how it is, and how to call it. It shows nothing that
 * only some may know.
 */
function renderHomePage(gateway: Gateway, connection?: Connection): Response {
  const url = escapeSite(gateway)
  return renderPage(
    gateway,
    `<p>A model gateway: one API in front of every model provider. Version ${VERSION}, ${renderStatus(gateway, connection)}.</p>
<ul>
<li><a href="/docs">API reference</a>, to read and to try</li>
<li><a href="/openapi.json">OpenAPI description</a></li>
<li><a href="/api/v1/models">Models</a></li>
</ul>
<p>Every client of the OpenRouter or OpenAI API works with the base URL <code>${url}/api/v1</code>,
and Anthropic’s with <code>${url}</code>. <code>gateway keys create --name me</code> makes a key:</p>
<pre>curl ${url}/api/v1/chat/completions \\
  -H "Authorization: Bearer $KEY" \\
  -d '{"model":"${Bun.escapeHTML(gateway.config.default_model)}","messages":[{"role":"user","content":"Hello there"}]}'</pre>`,
  )
}

/** Renders the page that a call without credits is told of: who adds some, and how. */
const renderCreditsPage = (gateway: Gateway): Response =>
  renderPage(
    gateway,
    `<h2>Credits</h2>
<p>Calls are paid for with credits that the operator of this gateway adds, in USD:</p>
<pre>gateway credits add --amount 10</pre>
<p>With a management key, <code>GET ${escapeSite(gateway)}/api/v1/credits</code> says how many there
were and what is spent of them.</p>`,
  )

const escapeSite = ({ instance: { siteUrl } }: Gateway): string =>
  Bun.escapeHTML(siteUrl.replace(/\/$/, ''))

function renderPage({ config }: Gateway, content: string): Response {
  const name = Bun.escapeHTML(config.service_name)
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${name}</title>
<link rel="icon" href="/favicon.ico">
<style>${STYLE}</style>
</head>
<body>
<h1>${name}</h1>
${content}
</body>
</html>
`
  return new Response(page, {
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
    },
  })
}

function renderStatus(gateway: Gateway, connection: Connection | undefined): string {
  const reason = findUnreadiness(gateway, connection)
  if (reason !== undefined) return `not ready: ${reason}`
  return gateway.instance.configStatus.rejected
    ? 'ready; its changed config file is wrong and not used'
    : 'ready'
}

/** Renders the picture that browsers show beside the address. */
const renderFavicon = (): Response =>
  new Response(MARK, {
    headers: {
      'content-type': 'image/svg+xml',
      'cache-control': 'max-age=86400',
      'x-content-type-options': 'nosniff',
    },
  })
