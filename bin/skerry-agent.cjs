#!/usr/bin/env -S node --max-semi-space-size=1 --optimize-for-size
'use strict';
require('./node-version.cjs').demand('skerry-agent');
import('../agent/src/main.ts');
