import type { AnyElysia } from 'elysia'
import styles from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import bundle from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import { notFound } from '../../base/errors.ts'
import { VERSION } from '../../base/version.ts'
import { allowAnyone } from '../access.ts'
import { buildOpenApi, type DescriptionContent } from '../openapi.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'

const describeSiteOperation = (details: Omit<Operation, 'tag' | 'open' | 'statuses'>) =>
  describeOperation({ tag: 'Site', open: true, statuses: [200], ...details })

/**
 * Creates the routes of the app's description, for programs and for people. `app` is called for
 * each request, when all routes are there.
 */
export const createDescriptionRoutes = (app: () => AnyElysia, about: About) => {
  const describe = async () => buildOpenApi(app(), about, await loadContent())
  const json = keepText(about, async () => JSON.stringify(await describe()))
  const yaml = keepText(about, async () => Bun.YAML.stringify(await describe(), null, 2))
  return new Routes(allowAnyone())
    .get(
      '/openapi.json',
      async () =>
        new Response(await json(), {
          headers: { 'content-type': 'application/json;charset=utf-8' },
        }),
      describeSiteOperation({ id: 'openapiJson', summary: 'Get this description' }),
    )
    .get(
      '/openapi.yaml',
      async () =>
        new Response(await yaml(), {
          headers: { 'content-type': 'application/yaml; charset=utf-8' },
        }),
      describeSiteOperation({
        id: 'openapiYaml',
        summary: 'Get this description in YAML',
        produces: ['application/yaml'],
      }),
    )
    .get(
      '/docs',
      () => renderDocsPage(),
      describeSiteOperation({
        id: 'docs',
        summary: 'Read this description and try it',
        produces: ['text/html'],
      }),
    )
    .get(
      '/docs/:part',
      ({ params }) => {
        const part = Object.hasOwn(DOCS_PARTS, params.part) ? DOCS_PARTS[params.part] : undefined
        if (!part) throw notFound()
        return part()
      },
      describeSiteOperation({
        id: 'docsPart',
        summary: 'Get an asset of that page',
        params: { part: 'Its name' },
        produces: ['text/javascript', 'text/css'],
      }),
    )
}

// On first use: few processes are ever asked for their description.
async function loadContent(): Promise<DescriptionContent> {
  const { readAnswers } = await import('../openapi/answers.ts')
  const { NOTES, TAGS } = await import('../openapi/notes.data.ts')
  return { version: VERSION, answers: readAnswers(), notes: NOTES, tags: TAGS }
}

interface About {
  title: string
  url: string
}

/**
 * Returns a function that renders a text once for each title, which a new config may change. Anyone
 * may ask for it, and it takes long.
 */
function keepText(about: About, render: () => Promise<string>): () => Promise<string> {
  let kept: { title: string; text: Promise<string> } | undefined
  return () => {
    if (kept?.title !== about.title) kept = { title: about.title, text: render() }
    return kept.text
  }
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API reference</title>
<link rel="stylesheet" href="/docs/page.css">
<link rel="icon" href="/favicon.ico">
</head>
<body>
<div id="page"></div>
<script src="/docs/bundle.js"></script>
<script src="/docs/page.js"></script>
</body>
</html>
`

// The requests of the page go to the address where it was opened, which is the only one that it may
// ask, and it shows the version of the program, as the API's is in every path. Of an open group, all
// operations are drawn at every key that is typed, so that groups begin closed; each operation shows
// its schemas. It is resolved within the part of the description that it names: Swagger reads all that
// it is given, which takes seconds. The validator's badge would be requested from another site, so it
// is off.
const SCRIPT = `const adapt = ({ info, ...description }) => ({
  ...description,
  info: { ...info, version: info['x-gateway-version'] },
  servers: [{ url: location.origin }],
})
const adaptSpec = original => description => original(adapt(description))
const read = (tree, names) => names.reduce((at, name) => at?.[name], tree)
const cut = (description, names) => {
  const part = { ...description, paths: {}, components: {} }
  const copy = names => {
    const value = read(description, names)
    if (value === undefined || read(part, names) !== undefined) return
    names.slice(0, -1).reduce((at, name) => (at[name] ??= {}), part)[names.at(-1)] = value
    for (const [, target] of JSON.stringify(value).matchAll(/"#[/]([^"]+)"/g)) copy(target.split('/'))
  }
  copy(names)
  return part
}
const resolveParts = ({ fn: { resolveSubtree } }) => ({
  fn: { resolveSubtree: (whole, names, options) => resolveSubtree(cut(whole, names), names, options) },
})
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#page',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
  persistAuthorization: false,
  plugins: [{ statePlugins: { spec: { wrapActions: { updateJsonSpec: adaptSpec } } } }, resolveParts],
})
`

// The page loads nothing from other sites. Its bundle contains its inline styles and images.
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  'font-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Renders the page to read the description and try the API. It loads nothing from other sites. */
const renderDocsPage = () =>
  createTextResponse(PAGE, 'text/html', { 'content-security-policy': POLICY })

/** The page's assets, by their name under `/docs/`. */
const DOCS_PARTS: Record<string, () => Promise<Response>> = {
  'page.js': async () => createTextResponse(SCRIPT, 'text/javascript'),
  'page.css': () => createCompressedResponse(styles, 'text/css'),
  'bundle.js': () => createCompressedResponse(bundle, 'text/javascript'),
}

const createTextResponse = (content: string, type: string, headers: Record<string, string> = {}) =>
  new Response(content, {
    headers: {
      ...headers,
      'content-type': `${type}; charset=utf-8`,
      'x-content-type-options': 'nosniff',
    },
  })

const compressedFiles = new Map<string, Uint8Array<ArrayBuffer>>()

async function createCompressedResponse(file: string, type: string): Promise<Response> {
  const bytes = compressedFiles.get(file) ?? Bun.gzipSync(await Bun.file(file).bytes())
  compressedFiles.set(file, bytes)
  const headers = {
    'content-type': `${type}; charset=utf-8`,
    'content-encoding': 'gzip',
    'cache-control': 'max-age=3600',
    'x-content-type-options': 'nosniff',
  }
  return new Response(bytes, { headers })
}
