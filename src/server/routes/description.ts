import type { AnyElysia } from 'elysia'
import { notFound } from '../../base/errors.ts'
import { VERSION } from '../../base/version.ts'
import { allowAnyone } from '../access.ts'
import { DOCS_PARTS, renderDocsPage } from '../docs.ts'
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
