import type { Kysely } from 'kysely'
import type { FeedbackStore } from '../../observability/feedback.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of feedback in SQL. */
export const createFeedbackStore = (kysely: Kysely<Tables>, write: Write): FeedbackStore => ({
  put: (feedback, entry) =>
    write(
      kysely
        .insertInto('feedback')
        .values(feedback)
        .onConflict(on =>
          on.columns(['generation_id', 'key_hash', 'user_id', 'category']).doUpdateSet(feedback),
        ),
      buildAuditInsert(kysely, entry),
    ),
  list: generation_id =>
    kysely
      .selectFrom('feedback')
      .selectAll()
      .where('generation_id', '=', generation_id)
      .orderBy('created_at')
      .orderBy('category')
      .execute(),
})
