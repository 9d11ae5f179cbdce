export const repertoire = {
  title: 'Repertoire',
  none: 'No replies match.',
  copy: 'Copy the reply',
  retire: 'Retire',
  retireTitle: 'Retire this reply?',
  retireText:
    'Nobody gets this reply any more. What was learned about it is kept, and you can restore it.',
  retired: 'Reply retired',
  dismiss: 'Dismiss',
  dismissHint: 'Spam, or not our topic. It comes back if five more people ask it.',
};
