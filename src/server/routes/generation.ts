import { NewFeedback, submitFeedback } from '../../observability/feedback.ts'
import { GenerationQuery, getGeneration } from '../../observability/generations.ts'
import { getGenerationContent } from '../../observability/transcripts.ts'
import { defineOperation } from '../../resources/operation.ts'
import { defineResource } from '../resource.ts'

const OWN = { tag: 'Generations', access: 'key', members: true } as const

/** Creates the routes of the record of a finished call. */
export const createGenerationRoutes = defineResource(OWN, [
  defineOperation(
    'GET /generation',
    'getGeneration',
    'Get the usage, cost and attempts of a finished call',
    (gateway, actor, { id }) => getGeneration(gateway, actor, id),
    { query: GenerationQuery, refusals: [404] },
  ),
  defineOperation(
    'GET /generation/content',
    'listGenerationContent',
    'Get what was asked and answered in a call, where it is kept',
    (gateway, actor, { id }) => getGenerationContent(gateway, actor, id),
    { query: GenerationQuery, refusals: [403, 404] },
  ),
])

/** Creates the route of feedback about calls. */
export const createFeedbackRoutes = defineResource({ tag: 'Generations', access: 'management' }, [
  defineOperation(
    'POST /generation/feedback',
    'submitGenerationFeedback',
    'Say what was wrong with an answer',
    submitFeedback,
    { body: NewFeedback, refusals: [404] },
  ),
])
