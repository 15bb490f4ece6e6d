import { Elysia } from 'elysia'
import { EmbeddingsRequest, embeddingsResponse, understand } from '../../core/dialects/embeddings.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { infer } from '../../core/inference/infer.ts'
import { anyKey } from '../access.ts'
import { readBody } from '../body.ts'
import { dryRun, EXPLANATION, explained } from '../dry-run.ts'
import { responding, STATUSES } from '../inference.ts'
import { operation } from '../operation.ts'

/** Vectors of texts and of whatever else a model has vectors for (wire reference B.3). */
export const embeddings = (gateway: Gateway) =>
  new Elysia().use(anyKey(gateway)).post(
    '/embeddings',
    ({ actor, request }) => embed(gateway, actor, request),
    operation({
      id: 'createEmbeddings',
      tag: 'Embeddings',
      summary: 'Turn texts into vectors',
      body: EmbeddingsRequest,
      statuses: STATUSES,
      other: EXPLANATION,
    }),
  )

const embed = (gateway: Gateway, actor: Actor, request: Request): Promise<Response> =>
  responding(gateway, request, undefined, async (context, headers) => {
    const body = await readBody(request, EmbeddingsRequest)
    const explanation = dryRun(gateway, actor, body, 'embedding', asker => understand(gateway, asker, body, context))
    if (explanation) return explained(await explanation, headers)
    const call = understand(gateway, actor, body, context)
    const answer = await infer(gateway, actor, 'embedding', call, request.signal)
    return Response.json(await embeddingsResponse(answer, call.params.encoding_format ?? 'float'), { headers })
  })
