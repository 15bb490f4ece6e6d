import type { Feedback, FeedbackStore } from '../../../src/observability/feedback.ts'
import { addAudit } from './audit.ts'
import type { Connection } from './memory.ts'
import { compareByFields } from './table.ts'

/** Feedback in memory. */
export const createMemoryFeedbackStore = (connection: Connection): FeedbackStore => ({
  put: (one, entry) =>
    connection.write(memory => {
      memory.feedback.remove(nameFeedback(one))
      memory.feedback.insert(nameFeedback(one), one)
      addAudit(memory, entry)
    }),
  list: id =>
    connection.read(({ feedback }) =>
      feedback
        .all(({ generation_id }) => generation_id === id)
        .sort(compareByFields('created_at', 'category')),
    ),
})

export const nameFeedback = ({ generation_id, key_hash, user_id, category }: Feedback): string =>
  `${generation_id} ${key_hash} ${user_id} ${category}`
