import { type AnyElysia, Elysia } from 'elysia'
import { notFound } from '../../core/errors.ts'
import { nobody } from '../access.ts'
import { DOCS_PARTS, docsPage } from '../docs.ts'
import { openapiOf } from '../openapi.ts'
import { type Operation, operation } from '../operation.ts'

const siteOperation = (described: Omit<Operation, 'tag' | 'open' | 'statuses'>) =>
  operation({ tag: 'Site', open: true, statuses: [200], ...described })

/**
 * Creates the routes of the app's description, for programs and for people. `app` is called for
 * each request, when all routes are there.
 */
export const description = (app: () => AnyElysia, about: { title: string; url: string }) =>
  new Elysia()
    .use(nobody())
    .get(
      '/openapi.json',
      () => openapiOf(app(), about),
      siteOperation({ id: 'openapiJson', summary: 'Get this description' }),
    )
    .get(
      '/openapi.yaml',
      () =>
        new Response(Bun.YAML.stringify(openapiOf(app(), about), null, 2), {
          headers: { 'content-type': 'application/yaml; charset=utf-8' },
        }),
      siteOperation({
        id: 'openapiYaml',
        summary: 'Get this description in YAML',
        produces: ['application/yaml'],
      }),
    )
    .get(
      '/docs',
      () => docsPage(),
      siteOperation({
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
      siteOperation({
        id: 'docsPart',
        summary: 'Get an asset of that page',
        params: { part: 'Its name' },
      }),
    )
