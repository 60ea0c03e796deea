#!/usr/bin/env node
'use strict';
require('./node-version.cjs').demand('kubectl-skerry');
import('../cli/src/main.ts');
